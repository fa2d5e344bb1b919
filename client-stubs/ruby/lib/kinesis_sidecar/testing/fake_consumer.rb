# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "kinesis_sidecar/internal/handler"

module KinesisSidecar
  module Testing
    # Stands for a Consumer. Hands out its records in order, in the thread of the caller, and ends when all have an
    # outcome. A retried record is delivered again with the next attempt; after `max_attempts` it becomes a dead
    # letter.
    class FakeConsumer
      # @return [Array<Outcome>] in order
      attr_reader :outcomes

      # @param records [Array<Record>] made by Testing.record
      def initialize(records, max_attempts: 3)
        @max_attempts = max_attempts
        @outcomes = []
        @stopped = false
        @waiting = records.map { |record| watched(record) }
        @with_loop = [] # Handed out last by a loop.
      end

      def stale
        0
      end

      def failed
        0
      end

      # See Consumer#run. There is one handler at a time, whatever the concurrency.
      def run(handler = nil, concurrency: 1, signals: true, &block)
        callable = handler || block or raise ArgumentError, "run needs a handler or a block"
        consume(callable)
      end

      # See Consumer#each.
      def each(concurrency: 1, &block)
        block ? consume(block) : enum_for(:each)
      end

      # See Consumer#each_batch.
      def each_batch(max_records: 500, max_wait: 1.0, &block)
        return enum_for(:each_batch, max_records: max_records, max_wait: max_wait) unless block

        handler = Internal::Handler.new(block)
        begin_loop
        handler.call(Batch.new(@with_loop = @waiting.shift(max_records))) until over?
      end

      def stop
        @stopped = true
        nil
      end

      def close
        stop
      end

      private

      def consume(callable)
        handler = Internal::Handler.new(callable)
        begin_loop
        handler.call((@with_loop = [@waiting.shift]).first) until over?
      end

      # The records without an outcome of a loop that was left are handed out again.
      def begin_loop
        @waiting.unshift(*@with_loop.reject(&:outcome))
        @with_loop = []
      end

      def over?
        @stopped || @waiting.empty?
      end

      def watched(record)
        record.on_settled { settled(record) }
      end

      def settled(record)
        outcome = record.outcome
        if outcome == :retry && record.attempt < @max_attempts
          @waiting.unshift(watched(record.redelivery))
        elsif outcome == :retry
          outcome = :dead_letter
        end
        @outcomes << Outcome.new(record, outcome, record.settlement&.reason.to_s)
      end
    end
  end
end
