# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module KinesisSidecar
  module Internal
    # The records of the session without a processed outcome, by scope, in the order of the stream. The thread that
    # reads owns it.
    class Waiting
      def initialize
        @by_scope = {}
      end

      # @param records [Array<Record>] that are handed out
      def add(records)
        records.each { |record| (@by_scope[record.scope] ||= []) << record if record.scope }
      end

      # @return [Array<Record>]
      def of(scope)
        @by_scope.fetch(scope, [])
      end

      # The sidecar delivers a scope in order. It has taken back the records from the position of the redelivery on, and
      # redelivers them after it.
      # @yieldparam record [Record] one of them, the last one first
      def replaced_by(redelivery)
        records = of(redelivery.scope)
        yield records.pop until records.empty? || (records.last.position <=> redelivery.position).negative?
      end

      # The outcome of the record is processed.
      def processed(record)
        records = @by_scope[record.scope] or return
        records.shift while records.first&.outcome
        @by_scope.delete(record.scope) if records.empty?
      end

      def lose_shard(shard_id)
        @by_scope.delete_if { |_, records| records.first.group.shard_id == shard_id }
      end

      def clear
        @by_scope.clear
      end
    end
  end
end
