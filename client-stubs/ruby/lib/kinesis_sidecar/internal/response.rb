# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "json"
require "kinesis_sidecar/internal/protocol_error"

module KinesisSidecar
  module Internal
    # Parses one response of HTTP/1.1. `feed` returns the new parts of the body.
    class Response
      HEAD_BYTES_MAX = 64 << 10

      attr_reader :status, :headers

      def initialize
        @status = nil
        @headers = {}
        @buffer = String.new # Bytes that are not parsed: of the head, or of the head of a chunk.
        @chunked = false
        # Bytes until the body or the chunk ends; nil: the body ends with the connection, or between chunks.
        @left = nil
        @chunk_ended = false # The line end of a chunk precedes the head of the next one.
        @complete = false
      end

      def complete?
        @complete
      end

      def keeps_connection?
        !headers.fetch("connection", "").downcase.include?("close")
      end

      # @param data [String] binary
      # @return [Array<String>]
      def feed(data)
        unless status
          @buffer << data
          return [] unless read_head

          data = @buffer
          @buffer = String.new
        end
        @chunked ? feed_chunks(data) : feed_plain(data)
      end

      # @return [SidecarError] the error that the response and its body report
      def refusal(content)
        problem = begin
          JSON.parse(content.dup.force_encoding(Encoding::UTF_8))
        rescue JSON::ParserError
          {}
        end
        SidecarError.new(status, problem.is_a?(Hash) ? problem : {}, Float(headers["retry-after"], exception: false))
      end

      private

      def read_head
        @buffer.delete_prefix!("\r\n") # The end of an earlier response.
        head_end = @buffer.index("\r\n\r\n")
        raise ProtocolError, "the head of the response is too long" if !head_end && @buffer.bytesize > HEAD_BYTES_MAX
        return false unless head_end

        first, *lines = @buffer.slice!(0, head_end + 4).split("\r\n")
        code = first[%r{\AHTTP/1\.\d (\d{3})}, 1]
        raise ProtocolError, "not a response of HTTP/1.1: #{first[0, 80].inspect}" unless code

        return read_head if code.start_with?("1") # 100 Continue.

        @headers = lines.to_h { |line| line.split(":", 2).map(&:strip) }.transform_keys(&:downcase)
        @status = code.to_i
        begin_body
        @complete = true if @left&.zero?
        true
      end

      def begin_body
        @chunked = headers.fetch("transfer-encoding", "").downcase.include?("chunked")
        return @left = 0 if status == 204
        return if @chunked || !headers.key?("content-length")

        @left = Integer(headers["content-length"], 10, exception: false)
        raise ProtocolError, "the content-length is not a number" unless @left
      end

      def feed_plain(data)
        return [data] unless @left

        part = data.byteslice(0, @left)
        @left -= part.bytesize
        @complete = @left.zero?
        [part]
      end

      def feed_chunks(data)
        data = @buffer << data unless @buffer.empty?
        parts = []
        at = 0
        while at < data.bytesize && !complete?
          following = @left ? take_chunk(data, at, parts) : begin_chunk(data, at)
          break unless following

          at = following
        end
        @buffer = data.byteslice(at..)
        raise ProtocolError, "the head of a chunk is too long" if @buffer.bytesize > HEAD_BYTES_MAX

        parts
      end

      # @return [Integer] the index after the part of the chunk
      def take_chunk(data, at, parts)
        part = data.byteslice(at, @left)
        parts << part
        @left -= part.bytesize
        if @left.zero?
          @left = nil
          @chunk_ended = true
        end
        at + part.bytesize
      end

      # @return [Integer, nil] the index after the head of the chunk; nil: the head is not complete
      def begin_chunk(data, at)
        at_size = @chunk_ended ? at + 2 : at
        head_end = data.index("\r\n", at_size)
        return unless head_end

        @left = Integer(data.byteslice(at_size...head_end)[/\A\h+/] || "", 16, exception: false)
        raise ProtocolError, "the head of a chunk is not a number" unless @left

        @complete = @left.zero?
        head_end + 2
      end
    end
  end
end
