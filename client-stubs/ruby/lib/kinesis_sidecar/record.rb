# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "json"
require "time"
require "kinesis_sidecar/internal/line"
require "kinesis_sidecar/internal/settlement"

module KinesisSidecar
  # One record. Its outcome is noted here; the consumer sends it. The first outcome counts; further calls do nothing.
  class Record
    # @api private
    attr_reader :settlement, :group, :line

    # @api private
    # @param line [String] of the stream, as Internal::Line takes it
    # @param group [Internal::Group]
    def initialize(line, group)
      @line = line # MRI keeps three instance variables in the object itself.
      @group = group
      @state = nil # :begun: the app has the record; an outcome; :acked: the engine has taken the acknowledgement.
    end

    # @return [Symbol, nil] :ack, :retry, :dead_letter or :drop; :taken_back if a retry of an earlier record took the
    #   record back; nil until there is an outcome
    def outcome
      case @state
      when :begun then nil
      when :acked then :ack
      else @state
      end
    end

    # @!group Outcomes

    # Acknowledges the record.
    # @param persisted [Boolean] waits until the checkpoint in the lease table covers the record, 10 s at most
    # @return [Boolean, nil] with `persisted`: whether the checkpoint covers the record
    def ack(persisted: false)
      return @group.engine.ack_persisted(self) if persisted
      return if @state && @state != :begun

      @state = :ack
      @group.outcomes << self
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
      @group.engine.extend_deadline(self, Internal::Settlement.new(:extend, duration)) unless outcome
      nil
    end

    # @!endgroup
    # @!group Content

    # @return [String] the bytes as they were put. Each call decodes them.
    def data
      Internal::Line.data(@line)
    end

    # @param options [Hash] options of JSON.parse, such as `symbolize_names: true`
    # @return [Object] the data parsed as JSON
    # @raise [JSON::ParserError] if the data is not JSON
    def json(**options)
      JSON.parse(data.force_encoding(Encoding::UTF_8), options)
    end

    # @return [String] the name or the ARN of the stream
    def stream
      head["stream"]
    end

    # @return [String]
    def shard_id
      head["shard_id"]
    end

    # @return [String]
    def partition_key
      head["partition_key"]
    end

    # @return [String] a decimal number of up to 128 bits: compare by `to_i`
    def sequence_number
      head["sequence_number"]
    end

    # @return [Integer] the place in a KPL aggregate
    def sub_sequence_number
      head["sub_sequence_number"].to_i
    end

    # @return [Integer] the lease epoch
    def epoch
      head["epoch"].to_i
    end

    # @return [Integer] the number of the delivery in one lease epoch, from 1
    def attempt
      head["attempt"].to_i
    end

    # @return [Time, nil] the approximate arrival; nil if it is not known
    def arrived_at
      text = head["approximate_arrival_timestamp"]
      Time.iso8601(text) unless text.nil? || text.empty?
    end

    # @return [Boolean] whether this is a KPL aggregate that could not be taken apart
    def aggregated?
      head["aggregated"] ? true : false
    end

    # @return [Boolean] whether this is a dead letter that is delivered again
    def redriven?
      head["redriven"] ? true : false
    end

    # @!endgroup

    # @api private
    # @return [String, nil] the unit of order; nil: no retry takes the record back
    def scope
      return @scope if defined?(@scope)

      @scope = @group.engine.scope_of(@line, @group)
    end

    # @api private
    # @return [String] the ack_id of the last delivery
    def settle_id
      Internal::Line.ack_id(@settle_line || @line)
    end

    # @api private
    # @return [Array] orders the records of one shard
    def position
      [sequence_number.to_i, sub_sequence_number]
    end

    # @api private
    # @return [String] is the same for every delivery of the record, until it is a dead letter that is delivered again
    def identity
      @identity ||= @group.identity_of(@line)
    end

    # @api private
    # @return [Float] when the record arrived here first
    def since
      @since || @group.since
    end

    # The app gets the record.
    # @api private
    # @return [Boolean] false: the record is not the app's any more, because it is redelivered
    def begin
      @group.beginning.synchronize do
        @ahead = false if @ahead
        return false if @state || !@group.current

        @state = :begun
      end
      true
    end

    # The app left the loop that had the record.
    # @api private
    # @return [Boolean] whether it is to be handed out again; false: it has an outcome, or waits in the place of its
    #   redelivery, now or when it comes
    def give_back
      @group.beginning.synchronize do
        return false if outcome

        @state = nil
        !@ahead
      end
    end

    # @api private
    # @return [Boolean] whether the app has the record, or has given it an outcome that the engine has not taken
    def unprocessed?
      !@state.nil? && @state != :taken_back && !processed?
    end

    # @api private
    # @return [Boolean] whether the app has the record, or gets it in the place of its redelivery, or has given it an
    #   outcome
    def with_app?
      @state.nil? ? @ahead : @state != :taken_back
    end

    # The engine takes the outcome.
    # @api private
    # @return [Boolean] false: the engine has taken it before
    def process
      return @state = :acked if @state == :ack
      return false if processed? || @state == :taken_back

      @processed = true
    end

    # @api private
    # @return [Boolean] whether the engine has taken the acknowledgement
    def acked?
      @state == :acked
    end

    # @api private
    def processed?
      @state == :acked || @processed
    end

    # The sidecar took the record back: it redelivers it.
    # @api private
    # @return [Boolean] false: the app has it, and keeps it until its loop is left
    def take_back
      return @state = :taken_back if @state.nil?

      @ahead = true
      false
    end

    # From now on the outcome of this record settles the redelivery.
    # @api private
    def adopt(redelivery)
      @settle_line = redelivery.line
      @since = since
      @group = redelivery.group
      @processed = false
      @ahead = true
      @state = :ack if @state == :acked
    end

    def inspect
      "#<#{self.class} #{shard_id} #{sequence_number} attempt #{attempt}>"
    end

    private

    def head
      @head ||= Internal::Line.head(@line)
    end

    def settle(settlement)
      return if outcome

      @settlement = settlement
      @state = settlement.outcome
      @group.engine.decided(self)
      nil
    end
  end
end
