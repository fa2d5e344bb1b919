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
        @mark = "\n"  # Text in the lines of the batch. No line has a line end.
        @mark_at = 0  # The mark begins there at the latest: ack_ids have one length. MRI looks there first.
      end

      # @param data [String] binary
      # @yieldparam message [Hash] a control event; or the first record of a batch
      # @yieldparam lines [Array<String>, nil] nil: the message is a control event; or further lines of the batch
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
        lines.each do |line|
          if line.rindex(@mark, @mark_at) && line.start_with?(Line::START) && line.end_with?(Line::FINISH)
            found << line
          elsif !line.empty?
            yield @head, found unless found.empty?
            found = []
            message = parse(line)
            record?(message) ? found << first_line(line, message) : yield(message, nil)
          end
        end
        yield @head, found unless found.empty?
      end

      def usual?(line)
        line.start_with?(Line::START) && line.end_with?(Line::FINISH)
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
        @mark = Line.mark(message["batch_id"])
        usual = usual?(line) ? line : Line.of(Line.parse(line))
        @mark_at = usual.index(@mark) || 0
        usual
      end
    end
  end
end
