# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module KinesisSidecar
  module Internal
    # Gives a record the outcome of its handler.
    class Handler
      # @param callable [#call] gets a Record or a Batch
      def initialize(callable)
        @callable = callable
      end

      # A `break` passes through: it settles nothing. In another thread Ruby makes it a LocalJumpError.
      def call(record)
        @callable.call(record)
        record.ack
      rescue LocalJumpError => e
        raise if e.reason == :break

        failed(record, e)
      rescue StandardError => e
        failed(record, e)
      end

      private

      def failed(record, error)
        record.retry(reason: "#{error.class}: #{error.message}")
      end
    end
  end
end
