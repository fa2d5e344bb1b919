# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "kinesis_sidecar/internal/inbox"
require "kinesis_sidecar/internal/resolved"

module KinesisSidecar
  module Internal
    # The records for one thread of the app, in order. It outlives the loops of the app.
    class Flow
      # @param source [#take, #stopped?]
      def initialize(engine, source)
        @engine = engine
        @source = source
        @ready = []
        @aside = {} # By scope: records that wait until no retry holds it.
      end

      # @yieldparam record [Record, nil] nil: a tick
      def each
        return if @source.stopped?

        loop do
          while (record = @ready.shift)
            next if (holding? && set_aside?(record)) || !record.begin

            yield record
            return if @source.stopped?
          end
          item = @source.take or return
          item.equal?(Inbox::TICK) ? yield(nil) : fill(item)
        end
      end

      # The records without an outcome of a loop that was left are handed out again, before all others.
      def give_back(records)
        @ready.unshift(*records.select(&:give_back))
      end

      private

      def fill(item)
        @ready = item.is_a?(Resolved) ? @aside.delete(item.scope) || [] : item
      end

      def holding?
        !@aside.empty? || !@engine.holds_none?
      end

      def set_aside?(record)
        scope = record.scope
        return false unless @aside.key?(scope) || @engine.held?(scope)

        (@aside[scope] ||= []) << record
        true
      end
    end
  end
end
