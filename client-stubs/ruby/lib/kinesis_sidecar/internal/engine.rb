# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "kinesis_sidecar/internal/earlier"
require "kinesis_sidecar/internal/group"
require "kinesis_sidecar/internal/hold"
require "kinesis_sidecar/internal/holds"
require "kinesis_sidecar/internal/line"
require "kinesis_sidecar/internal/outbox"
require "kinesis_sidecar/internal/resolved"

module KinesisSidecar
  module Internal
    # The state of one consumer, without I/O and without a clock: what the stream brings, and what the app may have.
    # The thread that reads calls it. Records, and the code that hands records out, run in other threads: they use
    # `outcomes`, `beginning`, `decided`, `extend_deadline`, `ack_persisted`, `held?`, `holds_none?`, `crowded?` and
    # `scope_of` alone.
    class Engine
      HEARTBEATS_MISSED = 3
      HEARTBEAT_SECONDS = 10.0
      SESSION_ENDED = "UNKNOWN" # Reason of a refusal: the sidecar was restarted. It may have accepted an earlier copy.

      # The records that have an outcome which the engine has not processed. MRI appends and shifts atomically.
      attr_reader :outcomes
      # A lock: while it is held, no record begins.
      attr_reader :beginning
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
        @outcomes = []
        @beginning = Mutex.new
        @holds = Holds.new
        @outbox = Outbox.new(options, @holds)
        @session_open = false
        @heartbeat = HEARTBEAT_SECONDS
        @group = nil # Of the last record.
        @deliveries = 0
        @heads = {} # By shard: the first record of its last batch in the session.
        # By identity: records of earlier sessions that the app has, or whose outcome the sidecar has not confirmed.
        @adoptable = {}
        @earlier = nil # An Earlier; nil: no record was redelivered for a while.
        @lease_lost = false # Records of a lost lease may be unconfirmed: their redeliveries have attempt 1.
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
      def scope_of(line, group)
        return if @options.ordering == "none" || group.redriven

        @options.ordering == "key" ? "#{group.shard_id}/#{Line.lane(line)}" : group.shard_id
      end

      # --- The stream ---

      # Takes what the decoder found in the bytes.
      # @raise [SessionTakenOver]
      def receive(decoder, data, now)
        decoder.feed(data) { |message, lines, again| lines ? take(message, lines, again, now) : event(message, now) }
      end

      # The connection of the stream has ended. The session accepts settlements until the next one begins.
      def disconnected
        @group = nil
        @beginning.synchronize { @outbox.groups.each_key { |group| group.current = false } }
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
        refused = request.refusals(answer)
        refused.each do |failure|
          @failed += 1
          @options.tell({ "type" => "settle_failed", **failure })
        end
        reasons = refused.to_h { |failure| failure.values_at("ack_id", "reason") }
        request.holds.each { |hold| judge(hold, reasons) }
        resolve
      end

      # The session of the whole request has ended. The next one frees the scopes of its retries.
      def refused(request)
        @outbox.done
        @stale += request.records.size
      end

      # The request is sent again, after `retry_after` seconds at the earliest.
      def unanswered(now, retry_after)
        @outbox.postpone(now, retry_after)
      end

      private

      def take(head, lines, again, now)
        @group = next_group(head, now) unless @group && @group.batch_id == head["batch_id"]
        records = @group.add(lines)
        @deliveries += records.size
        records = redelivered(records) if again || expecting?
        @hand_out.call(records) unless records.empty?
      end

      # Whether the first delivery of a record in this session, or in this lease epoch, may be a redelivery.
      def expecting?
        @lease_lost || !@adoptable.empty?
      end

      # Notes that the sidecar took the record back.
      def drop(record)
        @beginning.synchronize do
          next if record.outcome

          record.group.divide if record.take_back
        end
      end

      def next_group(head, now)
        close_group
        @heads[head["shard_id"]] = head unless head["redriven"] # These have no order.
        @lease_lost &&= !@outbox.groups.each_key.all?(&:current)
        group = Group.new(self, head, @deliveries, now)
        @outbox.groups[group] = true
        group
      end

      def close_group
        return unless @group

        @group.whole = true
        @outbox.mean_bytes = @group.bytes / @group.records.size
        add_earlier(@group) if @earlier
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
        @holds.barrier_passed(number.to_i, @deliveries)
        resolve
      end

      def lease_lost(shard_id)
        # Redriven records need no lease.
        lost = @outbox.groups.keys.select { |group| group.shard_id == shard_id && !group.redriven }
        @beginning.synchronize { lost.each { |group| group.current = false } }
        lost.each { |group| group.each_last_delivery { |record, _| drop(record) } }
        @lease_lost ||= !lost.empty?
      end

      def taken_over
        @session_open = false
        raise SessionTakenOver, "another process uses the client_id #{@options.client_id}"
      end

      # A new session: settlements of the earlier one are stale, and its records are redelivered.
      def opened(event, now)
        drain(now)
        disconnected
        keep_unconfirmed
        @heads.clear
        @heartbeat = event["heartbeat_ms"] / 1000.0 if event["heartbeat_ms"]
        @outbox.opened(event, now)
        @holds.reset.each { |scope| @hand_out.call(Resolved.new(scope)) }
        @session_open = true
      end

      # @param reasons [Hash{String => String}] of the refusals, by ack_id
      def judge(hold, reasons)
        id = hold.record.settle_id
        return if reasons[id] == SESSION_ENDED # The next session releases the scope.

        hold.answered(!reasons.key?(id))
      end

      # The session ends.
      def keep_unconfirmed
        @adoptable.delete_if { |_, record| settled?(record) }
        @outbox.unconfirmed.each do |record|
          record.group.live = false
          @adoptable[record.identity] = record
        end
        @earlier = nil
        @lease_lost = false
      end

      # @return [Boolean] whether the session delivered a later record of the shard, and not this one
      def settled?(record)
        return false unless record.outcome
        return true if record.redriven?

        head = @heads[record.shard_id] or return false
        position = [head["sequence_number"].to_i, head["sub_sequence_number"].to_i]
        (position <=> record.position).positive?
      end

      # @param records [Array<Record>] the last ones of the last batch
      # @return [Array<Record>] has the earlier deliveries of those that the app has. It does not get these again,
      #   unless it gives them back before.
      def redelivered(records)
        records.each { |record| replace(record) if record.scope && Line.again?(record.line) }
        first = @group.records.size - records.size
        records.map.with_index(first) do |redelivery, index|
          record = earlier_of(redelivery)
          record ? adopt(record, redelivery, index) : confirm(redelivery, @deliveries - records.size + index - first)
          record || redelivery
        end
      end

      def replace(redelivery)
        earlier.taken_back_by(redelivery) { |record| drop(record) }
      end

      # @return [Record, nil] the earlier delivery, if the app has it, or its outcome settles the redelivery
      def earlier_of(redelivery)
        record = @adoptable.delete(redelivery.identity) unless @adoptable.empty?
        return record if record&.with_app?
        return unless @lease_lost || Line.again?(redelivery.line)

        record = earlier.find(redelivery.identity)
        record if record&.with_app? && (!record.processed? || @outbox.unconfirmed?(record))
      end

      def earlier
        @earlier ||= begin
          @outbox.forget_groups
          Earlier.new(@outbox.groups.keys - [@group], @outbox.unconfirmed)
        end
      end

      def add_earlier(group)
        @earlier.add(group)
        @earlier = nil if @earlier.outgrown?(@outbox.max_in_flight, @outbox.max_in_flight_bytes)
      end

      # From now on the outcome of the record settles the redelivery.
      def adopt(record, redelivery, index)
        @group.records[index] = record
        @outbox.withdraw(record)
        record.adopt(redelivery)
        hold(record) if record.outcome == :retry
        @outcomes << record if record.outcome
      end

      # The redelivery of a retried record stands for the answer and the barrier of its retry.
      def confirm(redelivery, place)
        resolve if !@holds.none? && @holds.redelivered(redelivery, place)
      end

      def drain(now)
        @outcomes.shift(@outcomes.size).each do |record|
          next unless record.process

          group = record.group
          group.live ? @outbox.add(record, group, now) : lost(record)
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

        waiting = earlier.of(scope)
        waiting += Earlier.waiting(@group).select { |record, _| record.scope == scope } if @group
        waiting.each { |record, place| drop(record) if holds.any? { |hold| hold.takes_back?(record, place) } }
      end
    end
  end
end
