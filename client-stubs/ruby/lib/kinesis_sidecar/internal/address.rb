# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "uri"

module KinesisSidecar
  module Internal
    # Where the sidecar listens.
    class Address
      DEFAULT = "http://127.0.0.1:8990"

      # The path of the Unix socket, or nil.
      attr_reader :path
      attr_reader :host, :port

      # @param url [String] `http://HOST:PORT` or `unix:/PATH`
      def initialize(url)
        url.start_with?("unix:") ? read_path(url) : read_http(url)
      end

      def host_header
        return "localhost" if path

        host.include?(":") ? "[#{host}]:#{port}" : "#{host}:#{port}"
      end

      private

      def read_path(url)
        @path = url.delete_prefix("unix:")
        raise ArgumentError, "the path of a Unix socket must be absolute, got #{url}" unless @path.start_with?("/")
      end

      def read_http(url)
        uri = URI.parse(url)
        valid = uri.is_a?(URI::HTTP) && uri.scheme == "http" && uri.hostname && ["", "/"].include?(uri.path)
        raise ArgumentError, "the address must be http://HOST:PORT or unix:/PATH, got #{url}" unless valid

        @host = uri.hostname
        @port = uri.port
      rescue URI::InvalidURIError
        raise ArgumentError, "the address must be http://HOST:PORT or unix:/PATH, got #{url}"
      end
    end
  end
end
