# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module KinesisSidecar
  module Internal
    # What an app decided about a record, other than an acknowledgement.
    class Settlement
      REASON_MAX = 500 # Characters. The sidecar keeps 1000 bytes.

      attr_reader :outcome, :delay_ms, :reason

      def initialize(outcome, delay = nil, reason = "")
        @outcome = outcome
        @delay_ms = delay ? [0, (delay * 1000).to_i].max : 0
        @reason = text_of(reason.to_s)
      end

      # @return [Hash] the item of a settle request
      def item(ack_id)
        item = { "ack_id" => ack_id, "outcome" => @outcome }
        item["delay_ms"] = @delay_ms if @delay_ms.positive?
        item["reason"] = @reason unless @reason.empty?
        item
      end

      private

      # Text that JSON or the sidecar refuses would refuse the other settlements of the request.
      def text_of(reason)
        text = reason.encoding == Encoding::BINARY ? reason.dup.force_encoding(Encoding::UTF_8) : reason
        clean = text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace, replace: "?").scrub("?")
        clean[0, REASON_MAX].tr("\0", "?")
      end
    end
  end
end
