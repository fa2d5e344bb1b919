# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module KinesisSidecar
  module Testing
    # A record of Testing.record.
    # @api private
    class FakeRecord < Record
      # Stands for the group and the engine of one record.
      class Engine
        # @return [#call, nil] gets the record when it has an outcome
        attr_accessor :settled

        # The group of the record.
        def engine
          self
        end

        # Record#ack appends to it.
        def outcomes
          self
        end

        def decided(record)
          settled&.call(record)
        end
        alias << decided

        # A fake delivery has no deadline.
        def extend_deadline(*); end

        def ack_persisted(record)
          record.ack
          true
        end
      end
      private_constant :Engine

      def initialize(message)
        super(Internal::Line.of(message), Engine.new)
      end

      # The block gets the record when it has an outcome.
      def on_settled(&block)
        @group.settled = block
        self
      end

      # @return [FakeRecord] the next delivery
      def redelivery
        self.class.new(Internal::Line.parse(@line).merge("attempt" => attempt + 1))
      end
    end
  end
end
