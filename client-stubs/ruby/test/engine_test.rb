# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "test_helper"

# Counts the calls that compare or place a record.
module CountedRecord
  class << self
    attr_accessor :calls
  end
  self.calls = 0

  %i[== scope identity position outcome].each do |name|
    define_method(name) do |*arguments|
      CountedRecord.calls += 1
      super(*arguments)
    end
  end
end
KinesisSidecar::Record.prepend(CountedRecord)

# The engine alone, with a clock of the test.
class EngineTest < TestCase
  Internal = KinesisSidecar::Internal

  def setup
    @items = []
    options = Internal::Options.new("orders")
    @engine = Internal::Engine.new(options, hand_out: @items.method(:<<), wake: -> {}, persist: ->(_) {})
    @decoder = Internal::Decoder.new
    receive(0.0, ScriptedServer::SESSION)
  end

  def receive(now, *messages)
    @engine.receive(@decoder, messages.map { |message| "#{JSON.generate(message)}\n" }.join.b, now)
  end

  # @param records [Array<Array<Integer>>] number and attempt of each record of the batch
  # @return [Array<KinesisSidecar::Record>] the records that the app gets
  def deliver(batch, *records, now:)
    receive(now, *records.map { |number, attempt| ScriptedServer.record(number, attempt: attempt, batch: batch) })
    @items.shift(@items.size).flatten.each(&:begin)
  end

  # The records wait.
  def receive_batch(batch, *records)
    receive(0.0, *records.map { |number, attempt| ScriptedServer.record(number, attempt: attempt, batch: batch) })
  end

  # A loop was left that had the records.
  # @return [Array<Array<Integer>>] number and attempt of what the next loop begins
  def begin_again(records)
    again = records.select(&:give_back) + @items.shift(@items.size).grep(Array).flatten
    again.select(&:begin).map { |record| [record.sequence_number.to_i, record.attempt] }
  end

  # @return [Array<String>] the ids that are extended
  def extended(now)
    request = @engine.request(now) or return []
    @engine.answered(request, { "failed" => [] })
    request.items.map { |item| item["ack_id"] || item["batch_id"] }
  end

  def test_redelivery_does_not_begin_max_processing_again
    deliver("b1", [1, 1], now: 0.0)
    assert_equal ["b1"], extended(3599.0)
    deliver("b2", [1, 2], now: 3599.0)
    deliver("b3", [1, 3], now: 3601.0)
    assert_empty extended(3700.0)
  end

  def test_record_whose_time_is_over_is_not_extended_with_its_batch
    deliver("b1", [1, 1], now: 0.0)
    deliver("b2", [1, 2], [2, 1], [3, 1], [4, 1], now: 3500.0)[3].drop
    @engine.answered(@engine.request(3500.0), { "failed" => [] })
    assert_equal ["b2"], extended(3590.0)
    deliver("b3", [3, 2], now: 3590.0)
    assert_equal %w[a2-1 b3], extended(3700.0)
  end

  # --- The cost of redeliveries ---

  COUNTS = [200, 2000].freeze # Records in flight.

  # From the first redelivery on the engine knows the earlier records. The second one is counted.
  # @yieldparam count [Integer] records in flight
  # @yieldparam batch [String] the batch of the redelivery
  def assert_same_costs
    few, many = COUNTS.map do |count|
      setup
      yield count, nil
      yield count, "b0"
      CountedRecord.calls = 0
      yield count, "b00"
      CountedRecord.calls
    end
    assert_operator many, :<=, few
  end

  # Delivers records from 1 on, in batches of 10.
  # @return [Array<KinesisSidecar::Record>]
  def deliver_many(count)
    (1..count).each_slice(10).flat_map do |numbers|
      deliver("b#{numbers[0]}", *numbers.map { |number| [number, 1] }, now: 0.0)
    end
  end

  # Redelivers the last 10 records.
  def redeliver(batch, count)
    receive_batch(batch, *(count - 9..count).map { |number| [number, batch.size] })
  end

  def test_redelivery_costs_the_same_however_many_records_the_app_has
    assert_same_costs { |count, batch| batch ? redeliver(batch, count) : deliver_many(count) }
  end

  def test_redelivery_costs_the_same_however_many_records_wait
    assert_same_costs do |count, batch|
      batch ? redeliver(batch, count) : receive_batch("all", *(1..count).map { |number| [number, 1] })
    end
  end

  def test_redelivery_costs_the_same_however_many_outcomes_are_not_confirmed
    assert_same_costs do |count, batch|
      next redeliver(batch, count) if batch

      deliver_many(count).each(&:ack)
      @engine.request(1.0, everything: true)
    end
  end

  def test_redelivery_after_a_retry_costs_the_same_however_many_records_other_scopes_have
    assert_same_costs do |count, batch|
      next receive_batch(batch, [1, batch.size]) if batch

      receive(0.0, *(1..count).map { |number| ScriptedServer.record(number, batch: "others", shard: "other") })
      @items.clear
      deliver("b1", [1, 1], now: 0.0).first.retry
      extended(0.0)
    end
  end

  def test_redeliveries_collect_the_records_of_the_app_seldom
    deliver_many(1000)
    CountedRecord.calls = 0
    (1000...3000).each { |number| receive_batch("c#{number}", [number, 2]) }
    assert_operator CountedRecord.calls, :<, 20 * 2000
  end

  def test_record_is_found_after_many_others_were_delivered
    deliver("b1", [1, 1], now: 0.0)
    receive_batch("c1", [1, 2])
    @items.clear
    (2..3000).each { |number| deliver("b#{number}", [number, 1], now: 0.0).each(&:ack) }
    receive_batch("c2", [1, 3])
    assert_empty begin_again([])
  end

  # --- The thread of the app settles meanwhile ---

  def test_outcome_that_comes_while_the_record_is_taken_back_settles_the_redelivery
    first, second = deliver("b1", [1, 1], [2, 1], now: 0.0)
    second.define_singleton_method(:take_back) do
      ack
      super()
    end
    receive_batch("b2", [1, 2], [2, 2])
    first.drop
    items = Array.new(2) { @engine.request(0.0, everything: true).tap { |one| @engine.answered(one, {}) } }.map(&:items)
    assert_equal [["a1-2", :drop], %w[a2-2 ack]], items.flatten.map { |item| item.values_at("ack_id", "outcome") }
  end

  # --- Records of a loop that was left ---

  def test_redelivery_replaces_a_redelivered_record_that_was_given_back
    had = deliver("b1", [1, 1], now: 0.0)
    receive_batch("b2", [1, 2])
    refute_predicate had.first, :give_back
    receive_batch("b3", [1, 3])
    assert_equal [[1, 3]], begin_again([])
  end

  def test_records_given_back_wait_for_their_redelivery_after_that_of_an_earlier_one
    had = deliver("b1", [1, 1], [2, 1], [3, 1], now: 0.0)
    receive_batch("b2", [1, 2])
    assert_equal [[1, 1]], begin_again(had)
    receive_batch("b3", [2, 2], [3, 2])
    assert_equal [[2, 1], [3, 1]], begin_again([])
  end

  def test_record_given_back_after_an_accepted_retry_waits_for_its_redelivery
    first, second = deliver("b1", [1, 1], [2, 1], now: 0.0)
    first.retry
    extended(0.0)
    receive(0.0, { "type" => "barrier", "barrier" => "1" })
    assert_empty begin_again([first, second])
    receive_batch("b2", [1, 2], [2, 2])
    assert_equal [[1, 2], [2, 2]], begin_again([])
  end

  def test_record_given_back_may_be_settled_before_its_redelivery
    had = deliver("b1", [1, 1], [2, 1], now: 0.0)
    receive_batch("b2", [1, 2])
    assert_equal [[1, 1]], begin_again(had)
    had[1].ack
    receive_batch("b3", [2, 2])
    assert_empty begin_again([])
    assert_equal ["a2-2"], @engine.request(0.0, everything: true).items.map { |item| item["ack_id"] }
  end

  def test_record_given_back_after_its_lease_is_lost_waits_for_its_redelivery
    had = deliver("b1", [1, 1], now: 0.0)
    receive(0.0, { "type" => "lease_lost", "shard_id" => "shardId-000000000000" })
    assert_empty begin_again(had)
    receive_batch("b2", [1, 1])
    assert_equal [[1, 1]], begin_again([])
  end

  def test_record_given_back_after_its_session_waits_for_its_redelivery
    had = deliver("b1", [1, 1], now: 0.0)
    @engine.disconnected
    assert_empty begin_again(had)
    receive(0.0, ScriptedServer::SESSION)
    receive_batch("b2", [1, 2])
    assert_equal [1], begin_again([]).map(&:first)
  end
end
