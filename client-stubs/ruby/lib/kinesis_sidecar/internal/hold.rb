# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module KinesisSidecar
  module Internal
    # A retry that waits for its answer and its barrier.
    class Hold
      attr_reader :record
      attr_accessor :barrier, :accepted

      def initialize(record)
        @record = record
        @barrier = 0    # 0: not sent.
        @accepted = nil # nil: not answered.
      end

      def resolved?(barriers_seen)
        @accepted == false || (@accepted && barriers_seen >= @barrier)
      end

      # Whether the accepted retry has the record redelivered.
      def takes_back?(record)
        @accepted && record.barriers < @barrier && (record.position <=> @record.position).positive?
      end
    end
  end
end
