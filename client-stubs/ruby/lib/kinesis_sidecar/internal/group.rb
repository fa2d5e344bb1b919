# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module KinesisSidecar
  module Internal
    # The records of one batch_id.
    class Group
      attr_reader :engine, :outcomes, :beginning, :batch_id, :shard_id, :redriven, :since, :records, :unsent
      attr_accessor :open, :bytes, :mixed, :whole, :current, :live

      # @param engine [Engine]
      # @param head [Hash] members of its first record
      # @param place [Integer] of its first record: counts the deliveries of the consumer
      def initialize(engine, head, place, now)
        @engine = engine
        @outcomes = engine.outcomes
        @beginning = engine.beginning
        @batch_id = head["batch_id"]
        @shard_id = head["shard_id"]
        @redriven = head["redriven"] ? true : false
        @place = place
        @since = now
        @records = []
        @unsent = []     # Acknowledged records that are not sent.
        @open = 0        # Records without an outcome.
        @bytes = 0       # Of the lines of the records.
        @mixed = false   # A record has another outcome than an acknowledgement.
        @whole = false   # No further record of the batch follows.
        @current = true  # The app may begin its records: their connection and their lease are there.
        @live = true     # The sidecar accepts settlements: their session is there.
      end

      # @return [Array<Record>] the records of the lines
      def add(lines)
        added = lines.map { |line| Record.new(line, self) }
        @records.concat(added)
        @open += added.size
        @bytes += lines.sum(&:bytesize)
        added
      end

      # @return [String] the identity of the record of the line
      def identity_of(line)
        @origin ||= "#{@shard_id} #{redriven ? "redriven" : "first"} "
        (@origin + Line.sequence_numbers(line)).freeze
      end

      # @yieldparam record [Record] one that was not redelivered since, in the order of the stream
      # @yieldparam place [Integer] its place
      def each_last_delivery
        @records.each_with_index { |record, index| yield record, @place + index if record.group.equal?(self) }
      end

      # The record is acknowledged.
      def ack(record)
        @open -= 1
        @unsent << record
      end

      # The record gets another outcome than an acknowledgement.
      def divide
        @open -= 1
        @mixed = true
      end

      # A record that was redelivered since is in the list of its next group, too.
      def open_records
        @records.select { |record| record.group.equal?(self) && record.outcome.nil? }
      end

      def acked_whole?
        settled? && !@mixed
      end

      def settled?
        @whole && @open.zero?
      end
    end
  end
end
