# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "kinesis_sidecar/internal/caller"

module KinesisSidecar
  module Internal
    # Acknowledges a record and waits for the lease table, over a connection of its own: the wait must not hold up other
    # settlements.
    class PersistedAck
      WAIT_MS = 10_000
      ANSWER_SECONDS = WAIT_MS / 1000 + 10

      def initialize(options)
        @options = options
      end

      # @return [Boolean] whether the checkpoint covers the record
      def call(record)
        persisted = [nil, :ack].include?(record.outcome) && persisted?(record)
        record.ack # Without the wait: the batch of the record counts it.
        persisted
      end

      private

      def persisted?(record)
        caller = Caller.new(@options)
        item = { "ack_id" => record.settle_id, "outcome" => "ack" }
        answer = caller.call("POST", @options.settle_target, seconds: ANSWER_SECONDS,
                             body: { "settlements" => [item], "wait" => "persisted", "wait_ms" => WAIT_MS })
        answer["persisted"] == true && answer.fetch("failed", []).empty?
      rescue SidecarError, *Connection::LOST
        false
      ensure
        caller&.close
      end
    end
  end
end
