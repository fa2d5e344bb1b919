# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "test_helper"

class TestingTest < TestCase
  HANDLER = lambda do |record|
    raise "odd" if record.json == 1 && record.attempt == 1

    record.dead_letter("even") if record.json == 2
  end
  EXPECTED = [[1, 1, :retry, "RuntimeError: odd"], [1, 2, :ack, ""], [2, 1, :dead_letter, "even"]].freeze

  def fake(*values, **options)
    KinesisSidecar::Testing::FakeConsumer.new(values.map { |value| KinesisSidecar::Testing.record(value) }, **options)
  end

  def outcomes(consumer)
    consumer.outcomes.map { |outcome| [outcome.record.json, outcome.record.attempt, outcome.outcome, outcome.reason] }
  end

  def test_run_and_each_report_outcomes
    %i[run each].each do |way|
      consumer = fake(1, 2)
      consumer.public_send(way, &HANDLER)
      assert_equal EXPECTED, outcomes(consumer)
    end
  end

  def test_run_takes_a_handler
    consumer = fake(1, 2)
    consumer.run(HANDLER, concurrency: 4)
    assert_equal EXPECTED, outcomes(consumer)
  end

  def test_record_that_always_fails_becomes_a_dead_letter
    consumer = fake("{", max_attempts: 2)
    consumer.run(:json.to_proc)
    assert_equal(%i[retry dead_letter], consumer.outcomes.map(&:outcome))
  end

  def test_loop_that_is_left_settles_nothing
    consumer = fake(1, 2)
    consumer.each { |record| break if record.json == 2 }
    assert_equal [[1, 1, :ack, ""]], outcomes(consumer)
  end

  def test_record_of_a_loop_that_was_left_is_handed_out_by_the_next_loop
    consumer = fake(1, 2, 3)
    consumer.each { break }
    consumer.each_batch(max_records: 2) { |batch| break batch.first.drop }
    consumer.each { |record| record }
    assert_equal [[1, 1, :drop, ""], [2, 1, :ack, ""], [3, 1, :ack, ""]], outcomes(consumer)
  end

  def test_enumerator_acknowledges_the_record_before
    consumer = fake(1, 2)
    records = consumer.each
    assert_equal [1, 2], [records.next.json, records.next.json]
    assert_equal [[1, 1, :ack, ""]], outcomes(consumer)
  end

  [1, 2, 500].each do |size|
    define_method(:"test_batches_of_#{size}") do
      consumer = fake(*0...5)
      sizes = consumer.each_batch(max_records: size).map(&:size)
      assert_equal [5, [size, 5].min], [sizes.sum, sizes.max]
      assert_equal [:ack] * 5, consumer.outcomes.map(&:outcome)
    end
  end

  def test_persisted_ack_is_true
    consumer = fake(1)
    persisted = nil
    consumer.each { |record| persisted = record.ack(persisted: true) }
    assert_equal true, persisted
    assert_equal [[1, 1, :ack, ""]], outcomes(consumer)
  end

  def test_record_has_the_members_that_the_test_gives
    record = KinesisSidecar::Testing.record({ "a" => 1 }, partition_key: "p", epoch: 7)
    assert_equal [{ "a" => 1 }, "p", 7], [record.json, record.partition_key, record.epoch]
  end
end
