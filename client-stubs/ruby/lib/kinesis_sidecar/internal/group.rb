# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module KinesisSidecar
  module Internal
    # The records of one batch_id.
    class Group
      attr_reader :engine, :outcomes, :kept, :batch_id, :shard_id, :since, :records, :unsent
      attr_accessor :open, :bytes, :mixed, :whole, :current, :live

      # @param engine [Engine]
      def initialize(engine, batch_id, shard_id, now)
        @engine = engine
        @outcomes = engine.outcomes
        @kept = engine.kept
        @batch_id = batch_id
        @shard_id = shard_id
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

      # @param place [Integer] of the first record
      # @return [Array<Record>] the records of the lines
      def add(lines, place)
        added = lines.map.with_index(place) { |line, at| Record.new(line, self, at) }
        @records.concat(added)
        @open += added.size
        @bytes += lines.sum(&:bytesize)
        added
      end

      # @return [String] the identity of the record of the line
      def identity_of(line)
        @origin ||= "#{@shard_id} #{Line.redriven?(line) ? "redriven" : "first"} "
        (@origin + Line.sequence_numbers(line)).freeze
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
