# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

module KinesisSidecar
  # Records in the order of delivery.
  class Batch
    include Enumerable

    # @return [Array<Record>]
    attr_reader :records

    def initialize(records)
      @records = records
    end

    # @yieldparam record [Record]
    def each(&block)
      return enum_for(:each) { size } unless block

      records.each(&block)
      self
    end

    # @return [Integer] the number of records
    def size
      records.size
    end

    # Acknowledges the records that have no outcome.
    # @return [void]
    def ack
      records.each(&:ack)
    end

    # Retries the records that have no outcome.
    # @param delay [Numeric, nil] seconds until the redelivery at the earliest; nil: the back-off of the sidecar
    # @param reason [String]
    # @return [void]
    def retry(delay: nil, reason: "")
      records.each { |record| record.retry(delay: delay, reason: reason) }
    end
  end
end
