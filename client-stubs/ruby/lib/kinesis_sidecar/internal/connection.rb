# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "socket"
require "kinesis_sidecar/internal/protocol_error"

module KinesisSidecar
  module Internal
    # A socket to the sidecar, with a limit of time for each call.
    class Connection
      CONNECT_SECONDS = 5.0 # The sidecar is on this machine: it answers at once or not at all.
      READ_BYTES = 256 << 10
      # The errors of a connection that is lost, or cannot be made.
      LOST = [SystemCallError, IOError, SocketError, ProtocolError].freeze

      attr_reader :io

      def initialize(options)
        @options = options
        address = options.address
        @bytes = String.new(capacity: READ_BYTES)
        @io = address.path ? UNIXSocket.new(address.path) : open_tcp(address)
      end

      # @param body [Hash, nil] is sent as JSON
      def send_request(method, target, body: nil, accept: "application/json", seconds: CONNECT_SECONDS)
        data = request(method, target, body && JSON.generate(body), accept)
        until data.empty?
          written = io.write_nonblock(data, exception: false)
          if written == :wait_writable
            io.wait_writable(seconds) or raise Errno::ETIMEDOUT
          else
            data = data.byteslice(written..)
          end
        end
      end

      # @return [String] at least one byte; valid until the next read
      # @raise [EOFError] at the end of the connection
      def read(seconds)
        loop do
          data = read_available
          return data if data

          io.wait_readable(seconds) or raise Errno::ETIMEDOUT
        end
      end

      # @return [String, nil] valid until the next read; nil: there is nothing to read now
      def read_available
        data = io.read_nonblock(READ_BYTES, @bytes, exception: false)
        raise EOFError, "the sidecar closed the connection" if data.nil?

        data unless data == :wait_readable
      end

      def close
        io.close
      end

      private

      def open_tcp(address)
        Socket.tcp(address.host, address.port, connect_timeout: CONNECT_SECONDS).tap do |io|
          io.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
        end
      end

      def request(method, target, content, accept)
        head = ["#{method} #{target} HTTP/1.1", "Host: #{@options.address.host_header}", "Accept: #{accept}"]
        token = @options.token
        head << "Authorization: Bearer #{token}" if token
        head << "Content-Type: application/json" if content
        head << "Content-Length: #{content.to_s.bytesize}" if content || method != "GET"
        "#{head.join("\r\n")}\r\n\r\n#{content}".b
      end
    end
  end
end
