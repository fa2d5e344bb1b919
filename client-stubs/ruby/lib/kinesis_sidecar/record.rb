# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "json"
require "time"
require "kinesis_sidecar/internal/settlement"

module KinesisSidecar
  # One record. Its outcome is noted here; the consumer sends it. The first outcome counts, and further calls do nothing.
  class Record
    # @return [Symbol, nil] :ack, :retry, :dead_letter or :drop; :taken_back if a retry of an earlier record took the record
    #   back; nil until there is an outcome
    attr_accessor :outcome

    # @api private
    attr_reader :settlement, :barriers, :group
    # Whether the app has the record, and whether the engine has taken its outcome; nil: no.
    # @api private
    attr_accessor :begun, :processed

    # @api private
    # @param message [Internal::Line, Hash] members by name; numbers may be text
    def initialize(message, engine, group)
      @message = message
      @engine = engine
      @group = group
      @barriers = engine.barriers_seen # Before this record on the stream.
    end

    # @!group Outcomes

    # Acknowledges the record.
    # @param persisted [Boolean] waits until the checkpoint in the lease table covers the record, 10 s at most
    # @return [Boolean, nil] with `persisted`: whether the checkpoint covers the record
    def ack(persisted: false)
      return @engine.ack_persisted(self) if persisted
      return if @outcome

      @outcome = :ack
      @engine.outcomes << self
      nil
    end

    # Has the record delivered again.
    # @param delay [Numeric, nil] seconds until the redelivery at the earliest; nil: the back-off of the sidecar
    # @param reason [String] is kept with the record if it becomes a dead letter
    # @return [void]
    def retry(delay: nil, reason: "")
      settle(Internal::Settlement.new(:retry, delay, reason))
    end

    # Gives the record up and keeps it as a dead letter.
    # @return [void]
    def dead_letter(reason = "")
      settle(Internal::Settlement.new(:dead_letter, nil, reason))
    end

    # Gives the record up.
    # @return [void]
    def drop
      settle(Internal::Settlement.new(:drop))
    end

    # Moves the ack deadline.
    # @param duration [Numeric] seconds from now
    # @return [void]
    def extend_deadline(duration)
      @engine.extend_deadline(self, Internal::Settlement.new(:extend, duration)) unless @outcome
      nil
    end

    # @!endgroup
    # @!group Content

    # @return [String] the bytes as they were put. Each call decodes them.
    def data
      @message["data"].unpack1("m0")
    end

    # @param options [Hash] options of JSON.parse, such as `symbolize_names: true`
    # @return [Object] the data parsed as JSON
    # @raise [JSON::ParserError] if the data is not JSON
    def json(**options)
      JSON.parse(data.force_encoding(Encoding::UTF_8), options)
    end

    # @return [String] the name or the ARN of the stream
    def stream
      @message["stream"]
    end

    # @return [String]
    def shard_id
      @message["shard_id"]
    end

    # @return [String]
    def partition_key
      @message["partition_key"]
    end

    # @return [String] a decimal number of up to 128 bits: compare by `to_i`
    def sequence_number
      @message["sequence_number"]
    end

    # @return [Integer] the place in a KPL aggregate
    def sub_sequence_number
      @message["sub_sequence_number"].to_i
    end

    # @return [Integer] the lease epoch
    def epoch
      @message["epoch"].to_i
    end

    # @return [Integer] the number of the delivery in one lease epoch, from 1
    def attempt
      @message["attempt"].to_i
    end

    # @return [Time, nil] the approximate arrival; nil if it is not known
    def arrived_at
      text = @message["approximate_arrival_timestamp"]
      Time.iso8601(text) unless text.nil? || text.empty?
    end

    # @return [Boolean] whether this is a KPL aggregate that could not be taken apart
    def aggregated?
      @message["aggregated"] ? true : false
    end

    # @return [Boolean] whether this is a dead letter that is delivered again
    def redriven?
      @message["redriven"] ? true : false
    end

    # @!endgroup

    # @api private
    # @return [String, nil] the unit of order; nil: no retry takes the record back
    def scope
      return @scope if defined?(@scope)

      @scope = @engine.scope_of(@message, @group)
    end

    # @api private
    # @return [String] the ack_id of the last delivery
    def settle_id
      @settle_id || @message["ack_id"]
    end

    # @api private
    # @return [Array] orders the records of one shard
    def position
      [sequence_number.to_i, sub_sequence_number]
    end

    # @api private
    # @return [Array] is the same for every delivery of the record
    def identity
      [shard_id, sequence_number, sub_sequence_number]
    end

    # From now on the outcome of this record settles the redelivery.
    # @api private
    def adopt(redelivery)
      @settle_id = redelivery.settle_id
      @group = redelivery.group
      @barriers = redelivery.barriers
      @processed = false
    end

    def inspect
      "#<#{self.class} #{shard_id} #{sequence_number} attempt #{attempt}>"
    end

    private

    def settle(settlement)
      return if @outcome

      @settlement = settlement
      @outcome = settlement.outcome
      @engine.decided(self)
      nil
    end
  end
end
