# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module KinesisSidecar
  module Internal
    # A retry that waits for its answer and its barrier, or for the redelivery of its record.
    class Hold
      attr_reader :record, :accepted
      attr_writer :barrier

      def initialize(record)
        @record = record
        @barrier = 0    # 0: not sent.
        @passed = nil   # Place of the delivery after the barrier, or of the redelivery; nil: neither was read.
        @accepted = nil # nil: not answered.
      end

      def answered(accepted)
        @accepted = accepted if @accepted.nil?
      end

      # A request that was repeated has its barrier twice: the first one counts.
      # @param place [Integer] of the next delivery
      def barrier_passed(number, place)
        @passed ||= place if @barrier.positive? && @barrier <= number
      end

      # The redelivery shows that the sidecar has taken the later records of the scope back.
      def redelivered(place)
        @accepted = true
        @passed ||= place
      end

      def resolved?
        !@accepted.nil? && !@passed.nil?
      end

      # Whether the accepted retry has the record redelivered. A record of a lost lease takes nothing back: the app may
      # not begin the others of its epoch.
      # @param place [Integer] of the record
      def takes_back?(record, place)
        @accepted && @record.group.current && place < @passed &&
          (record.position <=> @record.position).positive?
      end
    end
  end
end
