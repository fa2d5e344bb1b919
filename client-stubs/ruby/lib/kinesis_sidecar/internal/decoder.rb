# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "json"
require "kinesis_sidecar/internal/line"
require "kinesis_sidecar/internal/protocol_error"

module KinesisSidecar
  module Internal
    # Turns the bytes of an NDJSON stream into messages.
    class Decoder
      MEDIA_TYPE = "application/x-ndjson"
      FRAME_BYTES_MAX = 32 << 20

      def initialize(frame_bytes_max = FRAME_BYTES_MAX)
        @frame_bytes_max = frame_bytes_max
        @rest = String.new
        @first = nil # Line of the batch.
      end

      # @param data [String] binary
      # @yieldparam batch_id [String, nil] nil: the message is a control event
      # @yieldparam message [Line, Hash]
      # @yieldparam bytes [Integer] the length of the line
      def feed(data, &block)
        lines = data.include?("\n") ? take_lines(data) : keep(data)
        raise ProtocolError, "a line has more than #{@frame_bytes_max} bytes" if @rest.bytesize > @frame_bytes_max

        lines.each { |line| decode(line, &block) unless line.empty? }
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

      def decode(line)
        message = @first&.followed_by(line) || first(line) || parse(line)
        if message.is_a?(Hash) && message.fetch("type", "record") != "record"
          yield nil, message, 0
        else
          yield message["batch_id"], message, line.bytesize
        end
      end

      def first(line)
        @first = Line.of(line)
      end

      def parse(line)
        message = JSON.parse(line.force_encoding(Encoding::UTF_8))
        raise ProtocolError, "a line is not a JSON object" unless message.is_a?(Hash)
        return message if message.fetch("type", "record") != "record" || (message["batch_id"] && message["shard_id"])

        raise ProtocolError, "a record has no batch_id or no shard_id"
      rescue JSON::ParserError => e
        raise ProtocolError, "a line is not JSON: #{e.message[0, 100]}"
      end
    end
  end
end
