# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "kinesis_sidecar/internal/settle_request"

module KinesisSidecar
  module Internal
    # What has to be sent to the sidecar: acknowledgements by batch, other outcomes, and extensions. The thread that
    # reads owns it; other threads use `extensions` and `crowded?`.
    class Outbox
      RETRY_AFTER_MAX_SECONDS = 30.0

      # Queue of [record, settlement].
      attr_reader :extensions
      # The groups that have records without an outcome, as keys.
      attr_reader :groups
      attr_reader :max_in_flight, :max_in_flight_bytes
      attr_accessor :mean_bytes

      def initialize(options, holds)
        @options = options
        @holds = holds
        @extensions = Thread::Queue.new
        @max_in_flight = options.max_in_flight
        @max_in_flight_bytes = options.max_in_flight_bytes
        @ack_deadline = options.ack_deadline
        @mean_bytes = 0 # Of a record of the last batch.
        @retry_at = 0.0 # When the pending request is sent again.
        @extend_at = Float::INFINITY
        clear
      end

      # Begins a session.
      def opened(event, now)
        (@groups.keys | @acked.keys).each { |group| group.live = false }
        clear
        @max_in_flight = event["max_in_flight"] || @max_in_flight
        @max_in_flight_bytes = event["max_in_flight_bytes"] || @max_in_flight_bytes
        @ack_deadline = event["ack_deadline_ms"] / 1000.0 if event["ack_deadline_ms"]
        @extend_at = now + @ack_deadline / 3
      end

      # @return [Array<Record>] that the app has, or whose outcome is not confirmed
      def unconfirmed
        open = @groups.each_key.flat_map { |group| group.records.select(&:unprocessed?) }
        open + @acked.each_key.flat_map(&:unsent) + @urgent.keys + (@pending ? @pending.records : [])
      end

      # Whether the outcome of the record, which is processed, is not confirmed. A retry that was sent may cause a
      # redelivery before it is answered.
      def unconfirmed?(record)
        return true if @urgent.key?(record)

        return false if record.outcome == :retry

        record.group.unsent.include?(record) || (!@pending.nil? && @pending.settles?(record))
      end

      # Forgets the groups whose records all have an outcome.
      def forget_groups
        @groups.delete_if { |group, _| group.settled? }
      end

      # The record is redelivered: its outcome goes out with the redelivery alone.
      def withdraw(record)
        return record.group.divide unless record.processed?

        @urgent.delete(record)
        @pending&.withdraw(record)
      end

      # The record has an outcome.
      def add(record, group, now)
        unless record.acked?
          group.divide
          return @urgent[record] = true
        end

        @acked[group] = now if group.unsent.empty?
        group.ack(record)
        @unsent += 1
      end

      # Whether acknowledgements that are not sent, and `more`, use up half of what may be in flight.
      def crowded?(more)
        doubled = (@unsent + more) * 2
        doubled >= @max_in_flight || @mean_bytes * doubled >= @max_in_flight_bytes
      end

      # The next request that is due, or nil.
      def request(now, everything)
        return (@pending if now >= @retry_at || everything) if @pending

        request = SettleRequest.new
        if !@urgent.empty?
          add_urgent(request) # Without acknowledgements, which a refusal must not take along.
        elsif everything || acks_due?(now)
          add_acks(request, now, everything)
        end
        add_extensions(request, now) if request.empty?
        @pending = request unless request.empty?
      end

      # The pending request was answered.
      def done
        @pending = nil
      end

      # The sidecar refuses the pending request, and the consumer ends: acknowledgements may still be sent.
      def abandon
        @pending = nil
        @urgent.clear
      end

      # The pending request is sent again, after `ack_interval` or `retry_after` seconds.
      def postpone(now, retry_after)
        @retry_at = now + [@options.ack_interval, [retry_after, RETRY_AFTER_MAX_SECONDS].min].max
      end

      # @return [Float] when `request` has to be called again, at the latest
      def next_at(now)
        return @retry_at if @pending

        first = @acked.empty? ? @extend_at : [@extend_at, oldest_ack + @options.ack_interval].min
        @groups.empty? ? first : [first, now + @options.ack_interval].min
      end

      private

      def clear
        @groups = {}.compare_by_identity
        @acked = {}.compare_by_identity # Since when groups have acknowledgements to send; the oldest is the first.
        @unsent = 0 # Acknowledgements in them.
        @urgent = {}.compare_by_identity # Records with another outcome, as keys.
        @pending = nil  # The request without an answer.
      end

      def oldest_ack
        @acked.first.last
      end

      def acks_due?(now)
        return false if @acked.empty?

        now - oldest_ack >= @options.ack_interval || crowded?(0)
      end

      def add_urgent(request)
        @urgent.keys.first(request.room).each do |record|
          @urgent.delete(record)
          request.add(record.settlement.item(record.settle_id), [record])
          @holds.send_with(request, record.scope, record) if record.outcome == :retry
        end
      end

      # A batch whose records were all acknowledged is one item. Of other batches the records go out that have waited
      # long enough, and those whose credit cannot wait.
      def add_acks(request, now, everything)
        at_once = everything || (crowded?(0) && @acked.each_key.none?(&:acked_whole?))
        @acked.to_a.each do |group, since|
          break if request.room.zero?

          if group.acked_whole?
            item = { "batch_id" => group.batch_id, "outcome" => "ack" }
            sent(group, group.unsent.size) { |records| request.add(item, records) }
          elsif at_once || now - since >= @options.ack_interval
            sent(group, request.room) { |records| add_single_acks(request, records) }
          end
        end
      end

      def add_single_acks(request, records)
        records.each { |record| request.add({ "ack_id" => record.settle_id, "outcome" => "ack" }, [record]) }
      end

      def sent(group, room)
        records = group.unsent.shift(room)
        yield records
        @unsent -= records.size
        @acked.delete(group)
        if !group.unsent.empty?
          @acked[group] = 0.0
        elsif group.settled?
          @groups.delete(group)
        end
      end

      def add_extensions(request, now)
        add_asked_extensions(request)
        return if now < @extend_at

        @extend_at = now + @ack_deadline / 3
        forget_groups
        @groups.each_key { |group| extend_open(request, group, now) if group.open.positive? }
      end

      # One item extends the batch, unless that extended a record which the app has for too long.
      def extend_open(request, group, now)
        open = group.open_records
        due = open.select { |record| now - record.since < @options.max_processing }
        ids = due.map { |record| { "ack_id" => record.settle_id } }
        ids = [{ "batch_id" => group.batch_id }] if due.size == open.size
        delay_ms = (@ack_deadline * 1000).to_i
        ids.first(request.room).each { |id| request.add({ **id, "outcome" => "extend", "delay_ms" => delay_ms }) }
      end

      def add_asked_extensions(request)
        until @extensions.empty? || request.room.zero?
          record, settlement = @extensions.pop
          request.add(settlement.item(record.settle_id)) if record.group.live && record.outcome.nil?
        end
      end
    end
  end
end
