# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "kinesis_sidecar/internal/resolved"

module KinesisSidecar
  module Internal
    # Several handlers at the same time, and the records of one scope (shard or lane) one after the other.
    class Lanes
      def initialize(engine, source, handler, concurrency)
        @engine = engine
        @source = source
        @handler = handler
        @concurrency = concurrency
        @lock = Mutex.new
        # By scope: records that wait for the one that is ready, is handled, or holds the scope.
        @waiting = {}
        @held = {} # Scopes without a record that is ready or handled, as keys.
        @ready = Thread::Queue.new
        @left = nil # The exception that has left a handler.
      end

      # Handles records until the source ends. Returns when no handler runs.
      # @return the value of a `break` in the handler, or nil
      def run
        threads = Array.new(@concurrency) { |number| start(number) }
        begin
          submit_all
        ensure
          threads.each { @ready << nil }
          threads.each(&:join)
        end
        return @left.exit_value if @left.is_a?(LocalJumpError)

        raise @left if @left
      end

      private

      def start(number)
        Thread.new { work }.tap { |thread| thread.name = "kinesis-sidecar handler #{number}" }
      end

      def submit_all
        while !@left && (item = @source.take)
          item.is_a?(Resolved) ? resume(item.scope) : submit(item)
        end
      end

      def submit(records)
        @lock.synchronize { records.each { |record| enqueue(record, record.scope) } }
      end

      def enqueue(record, scope)
        if scope.nil?
          @ready << record
        elsif (waiting = @waiting[scope])
          waiting << record
        else
          begin_scope(record, scope)
        end
      end

      # A retry from before a reconnect may hold the scope.
      def begin_scope(record, scope)
        @waiting[scope] = []
        return @ready << record unless @engine.held?(scope)

        @waiting[scope] << record
        @held[scope] = true
      end

      def work
        while (record = @ready.pop)
          @handler.call(record) if !@source.stopped? && record.begin
          leave(record.scope) if record.scope
          @source.hurry
        end
      rescue Exception => e # rubocop:disable Lint/RescueException -- the thread of the run raises it.
        @left ||= e
        @source.stop
      end

      def leave(scope)
        @lock.synchronize { @engine.held?(scope) ? @held[scope] = true : advance(scope) }
      end

      # A later retry may hold the scope by now: it has its own end.
      def resume(scope)
        @lock.synchronize { advance(scope) if !@engine.held?(scope) && @held.delete(scope) }
      end

      def advance(scope)
        record = @waiting[scope].shift
        record ? @ready << record : @waiting.delete(scope)
      end
    end
  end
end
