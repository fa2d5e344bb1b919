# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module KinesisSidecar
  module Internal
    # The body of a settle request, and what its answer decides.
    class SettleRequest
      ITEMS_MAX = 1000
      REDELIVERED = %w[EXPIRED FENCED].freeze # Reasons of a refusal: the sidecar redelivers the record.

      attr_reader :items, :holds
      attr_accessor :barrier

      def initialize
        @items = []
        @holds = []
        @records = [] # With an outcome; none in an extension.
        @members = nil # The same without those that were withdrawn, as keys; nil: nobody has asked.
        @barrier = nil
      end

      # @return [Array<Record>]
      def records
        @members ? @members.keys : @records
      end

      # Of a request that is complete.
      def settles?(record)
        members.key?(record)
      end

      # The answer does not count for the record.
      def withdraw(record)
        members.delete(record)
      end

      def add(item, records = [])
        @items << item
        @records.concat(records)
      end

      def room
        ITEMS_MAX - @items.size
      end

      def empty?
        @items.empty?
      end

      # A retry counts as accepted if the sidecar redelivers its record: an earlier copy of the request, or a missed ack
      # deadline, has taken the later records of the scope back.
      # @return [Array<Hash>] the items that count as refused
      def refusals(answer)
        return [] if records.empty?

        retries = @items.select { |item| item["outcome"] == :retry }.map { |item| item["ack_id"] }
        answer.fetch("failed", []).reject do |failure|
          retries.include?(failure["ack_id"]) && REDELIVERED.include?(failure["reason"])
        end
      end

      # @return [Hash]
      def body
        barrier ? { "settlements" => @items, "barrier" => barrier.to_s } : { "settlements" => @items }
      end

      private

      def members
        @members ||= {}.compare_by_identity.tap { |members| @records.each { |record| members[record] = true } }
      end
    end
  end
end
