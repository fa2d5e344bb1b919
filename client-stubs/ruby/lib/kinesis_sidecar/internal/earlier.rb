# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module KinesisSidecar
  module Internal
    # The records of the session that a redelivery may take back, or whose outcome may settle it. Some are confirmed: to
    # collect all again now and then costs less than to remove each record that is confirmed.
    class Earlier
      # @return [Array<Array>] the records of the group that a retry may take back, and their places
      def self.waiting(group)
        found = []
        group.each_last_delivery { |record, place| found << [record, place] if record.scope && record.outcome.nil? }
        found
      end

      # @param groups [Enumerable<Group>] with records that have no outcome, in the order of the stream
      # @param unconfirmed [Enumerable<Record>] that the app has, or whose outcome is not confirmed
      def initialize(groups, unconfirmed)
        @by_identity = {} # The last delivery of each record.
        @by_scope = {}    # Records without an outcome, and their places, in the order of the stream.
        groups.each { |group| add(group) }
        unconfirmed.each { |record| @by_identity[record.identity] = record }
        @collected = @by_identity.size
        @added_bytes = 0
      end

      # Adds a batch that has ended.
      def add(group)
        group.each_last_delivery { |record, _| @by_identity[record.identity] = record }
        Earlier.waiting(group).each { |pair| (@by_scope[pair[0].scope] ||= []) << pair }
        @added_bytes = @added_bytes.to_i + group.bytes
      end

      # @return [Boolean] whether most of the records may be confirmed
      def outgrown?(max_in_flight, max_in_flight_bytes)
        @by_identity.size > 2 * @collected + max_in_flight || @added_bytes > max_in_flight_bytes
      end

      # @return [Record, nil]
      def find(identity)
        @by_identity[identity]
      end

      # @return [Array<Array>] records and their places, in the order of the stream
      def of(scope)
        @by_scope.fetch(scope, [])
      end

      # The sidecar delivers a scope in order. It has taken back the records from the position of the redelivery on, and
      # redelivers them after it.
      # @yieldparam record [Record] one of them, the last one first
      def taken_back_by(redelivery)
        records = of(redelivery.scope)
        yield records.pop[0] until records.empty? || (records.last[0].position <=> redelivery.position).negative?
      end
    end
  end
end
