# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module KinesisSidecar
  module Internal
    # A retry that waits for its answer and its barrier.
    class Hold
      attr_reader :record, :passed
      attr_accessor :barrier, :accepted

      def initialize(record)
        @record = record
        @barrier = 0    # 0: not sent.
        @passed = nil   # Place on the stream after the barrier; nil: the barrier was not read.
        @accepted = nil # nil: not answered.
      end

      # A request that was repeated has its barrier twice: the first one counts.
      # @param place [Array] number of a group, and index in it
      def barrier_passed(number, place)
        @passed ||= place if @barrier.positive? && @barrier <= number
      end

      def resolved?
        @accepted == false || (@accepted && !@passed.nil?)
      end

      # Whether the accepted retry has the record of the place redelivered.
      def takes_back?(record, place)
        @accepted && (place <=> @passed).negative? && (record.position <=> @record.position).positive?
      end
    end
  end
end
