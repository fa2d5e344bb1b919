# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "kinesis_sidecar/internal/group"
require "kinesis_sidecar/internal/hold"
require "kinesis_sidecar/internal/holds"
require "kinesis_sidecar/internal/outbox"
require "kinesis_sidecar/internal/resolved"

module KinesisSidecar
  module Internal
    # The state of one consumer, without I/O and without a clock: what the stream brings, and what the app may have. The thread
    # that reads calls it. Records, and the code that hands records out, run in other threads: they use `outcomes`, `decided`,
    # `extend_deadline`, `ack_persisted`, `begin?`, `held?`, `crowded?` and `scope_of` alone.
    class Engine
      HEARTBEATS_MISSED = 3
      HEARTBEAT_SECONDS = 10.0

      # The records that have an outcome which the engine has not processed.
      attr_reader :outcomes
      # Whether the sidecar accepts settlements.
      attr_reader :session_open
      attr_reader :outbox, :stale, :failed

      # @param hand_out [#call] gets a list of records for the app, in order, or Resolved
      # @param wake [#call] asks for a call of `request` soon
      # @param persist [#call] acknowledges a record and waits for its checkpoint
      def initialize(options, hand_out:, wake:, persist:)
        @options = options
        @hand_out = hand_out
        @wake = wake
        @persist = persist
        @outcomes = Thread::Queue.new
        @holds = Holds.new
        @outbox = Outbox.new(options, @holds)
        @session_open = false
        @heartbeat = HEARTBEAT_SECONDS
        @group = nil # Of the last record.
        @scopes = Hash.new { |scopes, shard_id| scopes[shard_id] = [] }
        @adoptable = {} # By identity: records that the app has, and whose session has ended.
        @stale = 0
        @failed = 0
      end

      # --- For the threads of the app ---

      # The record has an outcome that is not an acknowledgement.
      def decided(record)
        hold(record) if record.outcome == :retry
        @outcomes << record
        @wake.call
      end

      def extend_deadline(record, settlement)
        @outbox.extensions << [record, settlement]
        @wake.call
      end

      def ack_persisted(record)
        @persist.call(record)
      end

      # Marks the record as begun. False: it is not the app's any more, because it is redelivered.
      def begin?(record)
        return false if record.outcome || !record.group.current

        record.begun = true
      end

      def held?(scope)
        @holds.held?(scope)
      end

      def holds_none?
        @holds.none?
      end

      # Whether acknowledgements use up half of what may be in flight.
      def crowded?
        @outbox.crowded?(@outcomes.size)
      end

      # @return [String, nil] nil: no retry takes the record back
      def scope_of(message, group)
        return if @options.ordering == "none" || message["redriven"]
        return group.shard_id if @options.ordering == "shard"

        lane = message["lane"].to_i
        group.scopes[lane] ||= "#{group.shard_id}/#{lane}"
      end

      def barriers_seen
        @holds.barriers_seen
      end

      # --- The stream ---

      # Takes what the decoder found in the bytes.
      # @raise [SessionTakenOver]
      def receive(decoder, data, now)
        records = []
        decoder.feed(data) do |batch_id, message, bytes|
          if batch_id.nil?
            records = hand(records)
            event(message, now)
          else
            record = take(batch_id, message, bytes, now)
            records << record if record
          end
        end
        hand(records)
      end

      # The connection of the stream has ended. The session accepts settlements until the next one begins.
      def disconnected
        @group = nil
        @outbox.groups.each_key { |group| group.current = false }
      end

      # @return [Float] seconds of silence after which the connection is lost
      def silence_max
        HEARTBEATS_MISSED * @heartbeat + 1
      end

      # --- Settling ---

      # @param everything [Boolean] whether to send what is not due yet, too
      # @return [SettleRequest, nil] the next request that is due. `answered`, `refused` or `unanswered` has its result.
      def request(now, everything: false)
        drain(now)
        @outbox.request(now, everything)
      end

      # The sidecar has judged each settlement of the request.
      def answered(request, answer)
        @outbox.done
        refused = request.records.empty? ? [] : answer.fetch("failed", [])
        refused.each do |failure|
          @failed += 1
          @options.tell({ "type" => "settle_failed", **failure })
        end
        ids = refused.map { |failure| failure["ack_id"] }
        request.holds.each { |hold| hold.accepted = !ids.include?(hold.record.settle_id) }
        resolve
      end

      # The session of the whole request has ended.
      def refused(request)
        @outbox.done
        @stale += request.records.size
        request.holds.each { |hold| hold.accepted = false }
        resolve
      end

      # The request is sent again, after `retry_after` seconds at the earliest.
      def unanswered(now, retry_after)
        @outbox.postpone(now, retry_after)
      end

      private

      def hand(records)
        @hand_out.call(records) unless records.empty?
        []
      end

      # @return [Record, nil] nil: the app has the record already
      def take(batch_id, message, bytes, now)
        @group = next_group(batch_id, message["shard_id"], now) unless @group && @group.batch_id == batch_id
        record = Record.new(message, self, @group)
        @group.add(record, bytes)
        record unless !@adoptable.empty? && adopt(record)
      end

      def next_group(batch_id, shard_id, now)
        close_group
        group = Group.new(batch_id, shard_id, @scopes[shard_id], now)
        @outbox.groups[group] = true
        group
      end

      def close_group
        return unless @group

        @group.whole = true
        @outbox.mean_bytes = @group.bytes / @group.records.size
        @group = nil
      end

      # An event does not end a batch: the sidecar writes a barrier between two records of one.
      def event(event, now)
        case event["type"]
        when "barrier" then return barrier(event["barrier"])
        when "session" then opened(event, now)
        when "lease_lost" then lease_lost(event["shard_id"])
        end
        @options.tell(event)
        taken_over if event["type"] == "ended" && event["reason"] == "taken_over"
      end

      def barrier(number)
        @holds.barrier_seen(number.to_i)
        resolve
      end

      def lease_lost(shard_id)
        @outbox.groups.each_key do |group|
          group.current = false if group.shard_id == shard_id && !group.records.first.redriven? # These need no lease.
        end
      end

      def taken_over
        @session_open = false
        raise SessionTakenOver, "another process uses the client_id #{@options.client_id}"
      end

      # A new session: settlements of the earlier one are stale, and its records are redelivered.
      def opened(event, now)
        drain(now)
        @adoptable = @adoptable.reject { |_, record| record.outcome }
        @outbox.unconfirmed.each { |record| @adoptable[record.identity] = record }
        disconnected
        @heartbeat = event["heartbeat_ms"] / 1000.0 if event["heartbeat_ms"]
        @outbox.opened(event, now)
        @holds.reset.each { |scope| @hand_out.call(Resolved.new(scope)) }
        @session_open = true
      end

      # @return [Boolean] whether the app has an earlier delivery of the record, whose outcome settles this one
      def adopt(redelivery)
        record = @adoptable.delete(redelivery.identity)
        return false unless record

        record.adopt(redelivery)
        record.group.records[-1] = record
        hold(record) if record.outcome == :retry
        @outcomes << record if record.outcome
        true
      end

      def drain(now)
        until @outcomes.empty?
          record = @outcomes.pop
          next if record.processed

          record.processed = true
          record.group.live ? @outbox.add(record, now) : lost(record)
        end
      end

      # The session of a settlement has ended. The redelivery of the record gets the outcome if it comes here.
      def lost(record)
        if record.outcome == :retry
          @holds.release(record)
          resolve
        end
        @stale += 1 unless @adoptable.key?(record.identity)
      end

      def hold(record)
        @holds.add(record.scope, record) if record.scope
      end

      def resolve
        scopes = @holds.resolve { |scope, holds| take_back(scope, holds) }
        scopes.each { |scope| @hand_out.call(Resolved.new(scope)) }
      end

      # Records that came before the barrier of an accepted retry are redelivered behind the retried record.
      def take_back(scope, holds)
        return if holds.empty?

        @outbox.groups.each_key do |group|
          group.records.each do |record|
            next if record.begun || record.outcome || record.scope != scope
            next unless holds.any? { |hold| hold.takes_back?(record) }

            record.outcome = :taken_back
            group.open -= 1
          end
        end
      end
    end
  end
end
