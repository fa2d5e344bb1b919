# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module KinesisSidecar
  module Internal
    # The body of a settle request, and what its answer decides.
    class SettleRequest
      ITEMS_MAX = 1000

      attr_reader :items, :holds, :records
      attr_accessor :barrier

      def initialize
        @items = []
        @holds = []
        @records = [] # With an outcome; none in an extension.
        @barrier = nil
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

      # @return [Hash]
      def body
        barrier ? { "settlements" => @items, "barrier" => barrier.to_s } : { "settlements" => @items }
      end
    end
  end
end
