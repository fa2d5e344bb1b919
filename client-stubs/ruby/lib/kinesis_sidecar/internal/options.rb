# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "json"
require "uri"
require "kinesis_sidecar/internal/address"

module KinesisSidecar
  module Internal
    # The options of a consumer; see Consumer#initialize. Durations are in seconds.
    class Options
      HEARTBEAT_MS = 10_000
      LANES_MAX = 64
      ORDERINGS = [nil, "shard", "key", "none"].freeze

      attr_reader :client_id, :address, :max_in_flight, :max_in_flight_bytes, :ack_deadline, :max_processing,
                  :ack_interval, :ordering

      def initialize(client_id, url: nil, token_file: nil, subscription: nil, max_in_flight: 1000,
                     max_in_flight_bytes: 16 << 20, ack_deadline: 60.0, max_processing: 3600.0, ack_interval: 0.1,
                     ordering: nil, lanes: nil, shards: nil, share: nil, salt: nil, filter: nil, on_event: nil)
        @client_id = checked_client_id(client_id.to_s)
        @address = Address.new(url || setting("KINESIS_SIDECAR_URL") || Address::DEFAULT)
        @token_file = token_file || setting("KINESIS_SIDECAR_TOKEN_FILE")
        @subscription = subscription
        @max_in_flight = max_in_flight
        @max_in_flight_bytes = max_in_flight_bytes
        @ack_deadline = ack_deadline.to_f
        @max_processing = max_processing
        @ack_interval = ack_interval.to_f
        @ordering = checked_ordering(ordering&.to_s)
        @lanes = lanes
        @shards = shards
        @share = checked_share(share)
        @salt = salt
        @filter = filter.nil? || filter.is_a?(String) ? filter : JSON.generate(filter)
        @on_event = on_event
      end

      # Several handlers, and a share, want lanes, unless the app has chosen an ordering.
      def order_for(concurrency)
        unless concurrency.is_a?(Integer) && concurrency.positive?
          raise ArgumentError, "concurrency must be an integer of at least 1, got #{concurrency.inspect}"
        end
        return if @ordering

        wants_lanes = concurrency > 1 || @share
        @ordering = wants_lanes ? "key" : "shard"
        @lanes ||= LANES_MAX if wants_lanes
      end

      # The bearer token, or nil. The file is read for each request, because tokens are rotated.
      def token
        File.read(@token_file).strip if @token_file
      end

      def tell(event)
        @on_event&.call(event)
      end

      def stream_target
        target("/v1/records/stream",
               client_id: client_id, max_in_flight: max_in_flight, max_in_flight_bytes: max_in_flight_bytes,
               ack_deadline_ms: (ack_deadline * 1000).to_i, heartbeat_ms: HEARTBEAT_MS, ordering: ordering,
               lanes: @lanes, shards: @shards && Array(@shards).join(","), share: @share, salt: @salt, filter: @filter)
      end

      def settle_target
        target("/v1/records/settle")
      end

      def session_target
        target("/v1/sessions/#{client_id}")
      end

      private

      # An empty variable is not set.
      def setting(name)
        value = ENV.fetch(name, "")
        value unless value.empty?
      end

      def checked_client_id(client_id)
        return client_id if client_id.match?(/\A[A-Za-z0-9._-]{1,64}\z/)

        raise ArgumentError, "client_id must be 1 to 64 of A-Z a-z 0-9 . _ -, got #{client_id.inspect}"
      end

      def checked_ordering(ordering)
        return ordering if ORDERINGS.include?(ordering)

        raise ArgumentError, "ordering must be shard, key or none, got #{ordering.inspect}"
      end

      def checked_share(share)
        return share if share.nil? || share.is_a?(String)

        raise ArgumentError, "share must be a text like \"0.05\", got #{share.inspect}"
      end

      def target(path, query = {})
        pairs = query.merge(subscription: @subscription).compact
        pairs.empty? ? path : "#{path}?#{URI.encode_www_form(pairs).gsub("+", "%20")}"
      end
    end
  end
end
