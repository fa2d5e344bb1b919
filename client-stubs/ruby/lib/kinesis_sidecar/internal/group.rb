# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module KinesisSidecar
  module Internal
    # The records of one batch_id.
    class Group
      attr_reader :batch_id, :shard_id, :scopes, :since, :records, :unsent
      attr_accessor :open, :bytes, :acked, :whole, :current, :live

      def initialize(batch_id, shard_id, scopes, now)
        @batch_id = batch_id
        @shard_id = shard_id
        @scopes = scopes # Of the shard, by lane.
        @since = now
        @records = []
        @unsent = []     # Acknowledged records that are not sent.
        @open = 0        # Records without an outcome.
        @bytes = 0       # Of the lines of the records.
        @acked = 0       # Records that the app has acknowledged.
        @whole = false   # No further record of the batch follows.
        @current = true  # The app may begin its records: their connection and their lease are there.
        @live = true     # The sidecar accepts settlements: their session is there.
      end

      def add(record, bytes)
        @records << record
        @open += 1
        @bytes += bytes
      end

      def acknowledge(record)
        @acked += 1
        @unsent << record
      end

      def acked_whole?
        @whole && @acked == @records.size
      end

      def settled?
        @whole && @open.zero?
      end
    end
  end
end
