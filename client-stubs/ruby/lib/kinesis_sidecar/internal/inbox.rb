# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module KinesisSidecar
  module Internal
    # Hands lists of records, and Resolved, from the thread that reads to the app.
    class Inbox
      # Ends a wait without a record.
      TICK = [].freeze

      # The time of the next tick, or nil.
      attr_accessor :tick_at

      def initialize
        @queue = Thread::Queue.new
        @stopped = false
        @error = nil
        @tick_at = nil
      end

      def put(item)
        @queue << item
      end

      def tick(now)
        return unless @tick_at && now >= @tick_at

        @tick_at = nil
        put(TICK)
      end

      # @return [Array<Record>, Resolved, nil] nil: the app gets no further records
      # @raise the error that has ended the thread that reads
      def take
        item = @queue.pop unless stopped?
        raise_error if @error
        item unless stopped?
      end

      # A signal handler may call it: it takes no lock.
      def stop
        @stopped = true
        put(TICK)
      end

      def stopped?
        @stopped
      end

      # The app's thread raises the error.
      def fail(error)
        @error = error
        put(TICK)
      end

      private

      def raise_error
        @stopped = true
        raise @error
      end
    end
  end
end
