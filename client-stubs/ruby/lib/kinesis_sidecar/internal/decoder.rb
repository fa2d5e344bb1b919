# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "kinesis_sidecar/internal/line"
require "kinesis_sidecar/internal/protocol_error"

module KinesisSidecar
  module Internal
    # Turns the bytes of an NDJSON stream into control events and lines of records.
    class Decoder
      MEDIA_TYPE = "application/x-ndjson"
      FRAME_BYTES_MAX = 32 << 20

      def initialize(frame_bytes_max = FRAME_BYTES_MAX)
        @frame_bytes_max = frame_bytes_max
        @rest = String.new
        @head = nil   # Members of the first record of the batch.
        @mark = nil   # Text in the lines of the batch that are like those of the sidecar; nil: they are not.
        @mark_at = 0  # It begins there in all of them: their ack_ids have one length.
      end

      # @param data [String] binary
      # @yieldparam message [Hash] a control event; or the first record of a batch
      # @yieldparam lines [Array<String>, nil] nil: the message is a control event; or further lines of the batch
      # @yieldparam again [Boolean, nil] whether one of these is not the first delivery of its record in its lease epoch
      def feed(data, &block)
        lines = data.include?("\n") ? take_lines(data) : keep(data)
        raise ProtocolError, "a line has more than #{@frame_bytes_max} bytes" if @rest.bytesize > @frame_bytes_max

        decode(lines, &block)
      end

      private

      def take_lines(data)
        lines = data.split("\n", -1)
        lines[0] = @rest << lines.first
        @rest = lines.pop
        lines
      end

      def keep(data)
        @rest << data
        []
      end

      def decode(lines)
        found = []
        again = false
        lines.each do |line|
          # MRI looks for the last mark at this place first.
          if @mark && line.rindex(@mark, @mark_at) == @mark_at && line.end_with?(Line::FINISH)
            again ||= !line.index(Line::FIRST, @mark_at)
            found << line
          elsif !line.empty?
            yield @head, found, again unless found.empty?
            found = []
            again = false
            message = parse(line)
            next yield(message, nil) unless record?(message)

            found << first_line(line, message)
            again = Line.again?(found[0])
          end
        end
        yield @head, found, again unless found.empty?
      end

      def parse(line)
        message = Line.head(line)
        message.is_a?(Hash) ? message : raise(ProtocolError, "a line is not a JSON object")
      rescue JSON::ParserError => e
        raise ProtocolError, "a line is not JSON: #{e.message[0, 100]}"
      end

      def record?(message)
        return false unless message.fetch("type", "record") == "record"
        return true if message["batch_id"] && message["shard_id"]

        raise ProtocolError, "a record has no batch_id or no shard_id"
      end

      # Begins a batch.
      def first_line(line, message)
        @head = message
        usual = line.start_with?(Line::START) && line.end_with?(Line::FINISH)
        @mark = usual ? Line.mark(message["batch_id"]) : nil
        @mark_at = line.index(@mark) if usual
        usual ? line : Line.of(Line.parse(line))
      end
    end
  end
end
