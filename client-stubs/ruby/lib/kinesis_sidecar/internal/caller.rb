# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "json"
require "kinesis_sidecar/internal/connection"
require "kinesis_sidecar/internal/response"

module KinesisSidecar
  module Internal
    # Requests and their JSON answers, one at a time, over a connection that is kept.
    class Caller
      def initialize(options)
        @options = options
        @connection = nil
      end

      # A kept connection may have been closed while it was idle: then the request is sent once more. The requests of
      # this package may all be repeated.
      # @return [Hash]
      # @raise [SidecarError] and the errors of Connection::LOST
      def call(method, target, body: nil, seconds: Connection::CONNECT_SECONDS)
        kept = !@connection.nil?
        begin
          exchange(method, target, body, seconds)
        rescue Errno::ETIMEDOUT
          raise
        rescue SystemCallError, IOError
          raise unless kept

          exchange(method, target, body, seconds)
        end
      end

      def close
        @connection&.close
        @connection = nil
      end

      private

      def exchange(method, target, body, seconds)
        response = Response.new
        content = receive(response, method, target, body, seconds)
        close unless response.keeps_connection?
        raise response.refusal(content) if response.status >= 400

        content.empty? ? {} : JSON.parse(content.force_encoding(Encoding::UTF_8))
      rescue JSON::ParserError => e
        raise ProtocolError, "the answer is not JSON: #{e.message[0, 100]}"
      end

      def receive(response, method, target, body, seconds)
        @connection ||= Connection.new(@options)
        @connection.send_request(method, target, body: body, seconds: seconds)
        parts = []
        parts.concat(response.feed(@connection.read(seconds))) until response.complete?
        parts.join
      rescue *Connection::LOST
        close
        raise
      end
    end
  end
end
