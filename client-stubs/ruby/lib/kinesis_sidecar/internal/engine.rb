# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "kinesis_sidecar/internal/group"
require "kinesis_sidecar/internal/hold"
require "kinesis_sidecar/internal/holds"
require "kinesis_sidecar/internal/line"
require "kinesis_sidecar/internal/outbox"
require "kinesis_sidecar/internal/resolved"
require "kinesis_sidecar/internal/waiting"

module KinesisSidecar
  module Internal
    # The state of one consumer, without I/O and without a clock: what the stream brings, and what the app may have.
    # The thread that reads calls it. Records, and the code that hands records out, run in other threads: they use
    # `outcomes`, `kept`, `beginning`, `decided`, `extend_deadline`, `ack_persisted`, `held?`, `crowded?` and `scope_of`
    # alone.
    class Engine
      HEARTBEATS_MISSED = 3
      HEARTBEAT_SECONDS = 10.0
      SESSION_ENDED = "UNKNOWN" # Reason of a refusal: the sidecar was restarted. It may have accepted an earlier copy.

      # The records that have an outcome which the engine has not processed. MRI appends and shifts atomically.
      attr_reader :outcomes
      # By identity: the records that the app has, or whose outcome the sidecar has not confirmed. Record#begin adds
      # them: MRI sets and deletes a key atomically.
      attr_reader :kept
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
        @kept = {}
        @beginning = Mutex.new
        @waiting = Waiting.new
        @holds = Holds.new
        @outbox = Outbox.new(options, @holds)
        @session_open = false
        @heartbeat = HEARTBEAT_SECONDS
        @group = nil # Of the last record.
        @deliveries = 0
        @heads = {} # By shard: the first record of its last batch in the session.
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
      def scope_of(line, shard_id)
        return if @options.ordering == "none" || Line.redriven?(line)

        @options.ordering == "key" ? "#{shard_id}/#{Line.lane(line)}" : shard_id
      end

      # --- The stream ---

      # Takes what the decoder found in the bytes.
      # @raise [SessionTakenOver]
      def receive(decoder, data, now)
        decoder.feed(data) { |message, lines| lines ? take(message, lines, now) : event(message, now) }
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
        done(request)
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
        done(request)
        @stale += request.records.size
      end

      # The request is sent again, after `retry_after` seconds at the earliest.
      def unanswered(now, retry_after)
        @outbox.postpone(now, retry_after)
      end

      private

      def take(head, lines, now)
        @group = next_group(head, now) unless @group && @group.batch_id == head["batch_id"]
        records = @group.add(lines, @deliveries)
        @deliveries += records.size
        again = records.select { |record| record.scope && Line.again?(record.line) }
        again.each { |redelivery| @waiting.replaced_by(redelivery) { |record| drop(record) } }
        records = with_kept(records) unless @kept.empty? && @holds.none?
        @waiting.add(records)
        @hand_out.call(records) unless records.empty?
      end

      # Notes that the sidecar took the record back.
      def drop(record)
        @beginning.synchronize do
          next if record.outcome

          record.take_back
          record.group.divide unless record.begun?
        end
      end

      def next_group(head, now)
        close_group
        @heads[head["shard_id"]] = head unless head["redriven"] # These have no order.
        group = Group.new(self, head["batch_id"], head["shard_id"], now)
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
        @holds.barrier_passed(number.to_i, @deliveries)
        resolve
      end

      def lease_lost(shard_id)
        @waiting.lose_shard(shard_id)
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
        disconnected
        forget(@kept.values.select { |record| !record.group.live && settled?(record) })
        @heads.clear
        @waiting.clear
        @kept.values.each { |record| record.group.live = false }
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

      # The request is answered: the sidecar has confirmed or refused the outcomes of its records.
      def done(request)
        @outbox.done
        forget(request.records)
      end

      def forget(records)
        records.each { |record| @kept.delete(record.identity) if record.equal?(@kept[record.identity]) }
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
      # @return [Array<Record>] has the earlier deliveries of those that the app has. It does not get these again, unless
      #   it gives them back before.
      def with_kept(records)
        first = @group.records.size - records.size
        records.map.with_index(first) do |redelivery, index|
          record = kept_for(redelivery)
          record ? adopt(record, redelivery, index) : confirm(redelivery)
          record || redelivery
        end
      end

      # @return [Record, nil] the earlier delivery; nil if its retry may have caused the redelivery, or if the app has
      #   given it back and the sidecar has taken it back
      def kept_for(redelivery)
        record = @kept[redelivery.identity]
        record unless record && (record.outcome == :taken_back || @outbox.retrying?(record))
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
      def confirm(redelivery)
        resolve if !@holds.none? && @holds.redelivered(redelivery)
      end

      def drain(now)
        @outcomes.shift(@outcomes.size).each do |record|
          next unless record.process

          @waiting.processed(record)
          record.group.live ? @outbox.add(record, now) : lost(record)
        end
      end

      # The session of a settlement has ended. The redelivery of the record gets the outcome if it comes here.
      def lost(record)
        if record.outcome == :retry
          @holds.release(record)
          resolve
        end
        @stale += 1 unless @kept.key?(record.identity)
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

        @waiting.of(scope).each { |record| drop(record) if holds.any? { |hold| hold.takes_back?(record) } }
      end
    end
  end
end
