# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "test_helper"

# Redeliveries in one session: of records that the app has retried, and of records that it has.
class RedeliveryTest < ScriptedTestCase
  NO_ANSWER = ScriptedServer::NO_ANSWER
  BARRIER = { "type" => "barrier", "barrier" => "1" }.freeze # Of the copy that the sidecar did not answer.
  LEASE_LOST = { "type" => "lease_lost", "shard_id" => "shardId-000000000000" }.freeze

  # Sends the items, and waits until the consumer has received them.
  def deliver(*items)
    mark = "mark #{@events.size}"
    [*items, { "type" => mark }].each { |item| @server.say(item) }
    wait_until("the items are received") { event_types.include?(mark) }
  end

  def second(number, batch: "b2")
    record(number, attempt: 2, batch: batch)
  end

  def of_next_epoch(number)
    record(number, batch: "b2").merge("epoch" => 2, "ack_id" => "next#{number}")
  end

  def answer_nothing
    @server.settle_answers.concat([NO_ANSWER] * 1000)
  end

  # The app has retried record 1 and has not begun 2 and 3. The retry has no answer.
  # @return [Enumerator] the records
  def retry_without_an_answer(**options)
    answer_nothing
    @server.stream(SESSION, record(1), record(2), record(3))
    records = consumer(**options).each
    records.next.retry
    wait_until("the retry is sent") { @server.settles.any? }
    deliver
    records
  end

  # The thread that reads has the answer before it receives what `say` or `deliver` sends next.
  def refuse_repetition(reason)
    @server.settle_answers.replace([ScriptedServer.item_refusal("a1-1", reason)])
    wait_until("the repeated retry is refused") { @server.settle_answers.empty? }
  end

  # @return [Enumerator] the records; the first one was retried, and the answer is there
  def retry_first
    records = consumer.each
    records.next.retry
    wait_until("the retry is sent") { @server.settles.any? }
    deliver
    records
  end

  # --- An Enumerator is left ---

  def test_record_of_an_enumerator_that_was_left_is_handed_out_by_the_next_one
    @server.stream(SESSION, record(1), record(2), record(3), record(4))
    assert_equal [1, 2], numbers(take(consumer, 2))
    records = consumer.each_batch(max_records: 2, max_wait: 60).next.to_a
    assert_equal [2, 3], numbers(records)
    records.first.drop
    assert_equal [3, 4], numbers(take(consumer, 2))
    consumer.close
    assert_equal [%w[a1-1 ack], %w[a2-1 drop], %w[a3-1 ack]], @server.outcomes.sort
  end

  def test_record_of_an_enumerator_that_was_left_is_handed_out_once_after_its_redelivery
    @server.stream(SESSION, record(1))
    take(consumer, 1)
    deliver(second(1), record(2, batch: "b2"))
    assert_equal [1, 2], numbers(take(consumer, 2))
    consumer.close
    assert_equal [%w[a1-2 ack]], @server.outcomes
  end

  def test_records_that_a_retry_takes_back_from_an_enumerator_that_was_left_are_handed_out_behind_it
    @server.stream(SESSION, record(1), record(2), record(3))
    consumer.each_batch(max_records: 2, max_wait: 60).next.to_a.first.retry
    wait_until("the record is retried") { @server.settles.any? }
    deliver(second(1), second(2), second(3))
    assert_equal [1, 2, 3], numbers(take(consumer, 3))
  end

  def test_record_of_a_lost_lease_is_not_handed_out_by_the_next_enumerator
    @server.stream(SESSION, record(1))
    take(consumer, 1)
    deliver(LEASE_LOST, of_next_epoch(2))
    assert_equal [2], numbers(take(consumer, 1))
  end

  # --- The retry is refused because its record is redelivered ---

  %w[EXPIRED FENCED].each do |reason|
    define_method(:"test_repeated_retry_that_is_refused_as_#{reason}_before_the_redelivery_counts_as_accepted") do
      records = retry_without_an_answer
      deliver(BARRIER)
      refuse_repetition(reason)
      deliver(second(1), second(2), second(3))
      assert_equal [[1, 2], [2, 2], [3, 2]], handed_out(records, 3)
      assert_equal 0, consumer.failed
      refute_includes event_types, "settle_failed"
    end

    define_method(:"test_repeated_retry_that_is_refused_as_#{reason}_after_the_redelivery_counts_as_accepted") do
      records = retry_without_an_answer
      deliver(BARRIER, second(1), second(2), second(3))
      refuse_repetition(reason)
      assert_equal [[1, 2], [2, 2], [3, 2]], handed_out(records, 3)
      assert_equal 0, consumer.failed
    end
  end

  # The ack deadline of record 1 has passed: both records are redelivered.
  def test_first_retry_that_is_expired_waits_for_the_redelivery
    @server.says_barriers = false
    @server.settle_answers << ScriptedServer.item_refusal("a1-1", "EXPIRED")
    @server.stream(SESSION, record(1), record(2))
    records = retry_first
    deliver(second(1), second(2), BARRIER)
    assert_equal [[1, 2], [2, 2]], handed_out(records, 2)
    assert_equal 0, consumer.failed
  end

  # The sidecar was restarted: the session is one of another process.
  def test_first_retry_that_is_unknown_waits_for_the_next_session
    @server.says_barriers = false
    @server.settle_answers << ScriptedServer.item_refusal("a1-1", "UNKNOWN")
    @server.stream(SESSION, record(1), record(2))
    records = retry_first
    wait_until("the retry is refused") { consumer.failed == 1 }
    @server.stream(SESSION, record(1, batch: "b2"), record(2, batch: "b2"))
    @server.say(nil)
    assert_equal [[1, 1], [2, 1]], handed_out(records, 2)
  end

  [[409, "session-fenced"], [410, "session-expired"]].each do |status, code|
    define_method(:"test_retry_that_is_refused_by_#{status}_holds_its_scope_until_the_next_session") do
      @server.settle_answers << ScriptedServer.refusal(status, code: code)
      @server.stream(SESSION, record(1), record(2))
      records = retry_first
      wait_until("the settlement is stale") { consumer.stale == 1 }
      @server.stream(SESSION, second(1), second(2))
      @server.say(nil)
      assert_equal [[1, 2], [2, 2]], handed_out(records, 2)
    end
  end

  def test_repeated_retry_of_a_malformed_id_counts_as_refused
    records = retry_without_an_answer
    refuse_repetition("MALFORMED")
    assert_equal [[2, 1], [3, 1]], handed_out(records, 2)
    assert_equal 1, consumer.failed
  end

  # The sidecar accepted the first request, wrote its barrier, and was restarted.
  def test_repeated_retry_of_an_unknown_id_holds_its_scope_until_the_next_session
    records = retry_without_an_answer
    deliver(BARRIER)
    refuse_repetition("UNKNOWN")
    @server.stream(SESSION, *(1..3).map { |number| record(number, batch: "b2") })
    @server.say(nil)
    assert_equal [[1, 1], [2, 1], [3, 1]], handed_out(records, 3)
    assert_equal 1, consumer.failed
  end

  def test_repeated_drop_that_is_expired_counts_as_refused
    @server.settle_answers << NO_ANSWER << ScriptedServer.item_refusal("a1-1", "EXPIRED")
    @server.stream(SESSION, record(1))
    take(consumer, 1).first.drop
    wait_until("the refusal is counted") { consumer.failed == 1 }
  end

  def test_retry_that_a_kept_connection_repeats_counts_as_accepted
    @server.stream(SESSION, record(1), record(2), record(3))
    records = consumer.each
    records.next.drop
    wait_until("the connection is open") { @server.settles.any? }
    @server.settle_answers << NO_ANSWER << ScriptedServer.item_refusal("a2-1", "EXPIRED")
    records.next.retry
    wait_until("the retry is repeated") { @server.settles.size == 3 }
    deliver(BARRIER, second(2), second(3))
    assert_equal [[2, 2], [3, 2]], handed_out(records, 2)
    assert_equal 0, consumer.failed
  end

  # --- The redelivery stands for the answer and the barrier ---

  { shard: [[1, 2]], none: [[2, 1], [3, 1], [1, 2]] }.each do |ordering, wanted|
    define_method(:"test_redelivery_of_a_retried_record_with_ordering_#{ordering}_is_handed_out_before_the_answer") do
      records = retry_without_an_answer(ordering: ordering)
      deliver(second(1))
      assert_equal wanted, handed_out(records, wanted.size)
    end
  end

  # The sidecar has not received the first copy: the ack deadline of record 1 has passed.
  def test_redelivery_before_the_barrier_is_not_taken_back
    records = retry_without_an_answer
    deliver(second(1), second(2), second(3))
    refuse_repetition("EXPIRED")
    deliver
    assert_equal [[1, 2], [2, 2], [3, 2]], handed_out(records, 3)
  end

  def test_redelivery_of_another_retried_record_does_not_end_the_hold
    @server.stream(SESSION, record(1), record(2))
    batches = consumer.each_batch(max_records: 2, max_wait: 60)
    first, other = batches.next.records
    other.retry
    wait_until("the other record is retried") { @server.settles.any? }
    answer_nothing
    first.retry
    wait_until("the retry is sent") { @server.settles.size >= 2 }
    deliver(second(2), record(3, batch: "b2"))
    refuse_repetition("MALFORMED")
    assert_equal [[2, 2], [3, 1]], attempts(batches.next)
  end

  # The lease begins again after record 1.
  def test_retry_takes_back_no_record_of_the_next_lease_epoch
    records = retry_without_an_answer
    deliver(LEASE_LOST, of_next_epoch(2))
    refuse_repetition("FENCED")
    deliver
    assert_equal 2, records.next.epoch
  end

  # The app has record 1 when its lease is lost. Another sidecar has settled the record.
  def test_retry_after_a_lost_lease_takes_nothing_of_the_next_lease_back
    @server.settle_answers << ScriptedServer.item_refusal("a1-1", "FENCED")
    @server.stream(SESSION, record(1))
    records = consumer.each
    first = records.next
    deliver(LEASE_LOST, of_next_epoch(2))
    first.retry
    wait_until("the retry is sent") { @server.settles.any? }
    deliver
    assert_equal 2, records.next.epoch
    assert_equal 0, consumer.failed
  end

  # --- A redelivery replaces the records that wait ---

  # An ack deadline has passed. The app has record 1.
  { shard: [[2, 2], [3, 2]], none: [[2, 1], [3, 1], [2, 2], [3, 2]] }.each do |ordering, wanted|
    define_method(:"test_redelivery_with_ordering_#{ordering}_and_records_that_wait") do
      @server.stream(SESSION, record(1), record(2), record(3))
      records = consumer(ordering: ordering).each
      records.next
      deliver(second(2), second(3))
      assert_equal wanted, handed_out(records, wanted.size)
    end
  end

  def test_redelivery_replaces_records_of_its_lane_alone
    @server.stream(SESSION, record(1, lane: 1), record(2, lane: 2), record(3, lane: 1), record(4, lane: 2))
    records = consumer(ordering: :key).each
    records.next
    deliver(record(3, attempt: 2, batch: "b2", lane: 1))
    assert_equal [[2, 1], [4, 1], [3, 2]], handed_out(records, 3)
  end

  def test_redelivery_of_a_record_that_the_app_has_replaces_the_later_ones
    @server.stream(SESSION, record(1), record(2), record(3))
    records = consumer.each
    records.next
    deliver(second(1))
    deliver(second(2), second(3))
    assert_equal [[2, 2], [3, 2]], handed_out(records, 2)
    consumer.close
    assert_includes @server.outcomes, %w[a1-2 ack]
  end

  def test_redelivery_replaces_a_record_of_an_enumerator_that_was_left
    @server.stream(SESSION, record(1), record(2))
    take(consumer, 1)
    records = consumer.each
    records.next
    deliver(second(2))
    assert_equal [[2, 2]], handed_out(records, 1)
  end

  # --- The app has the record that is redelivered ---

  def test_rest_of_a_batch_is_handed_out_once_though_its_first_record_is_retried
    @server.stream(SESSION, record(1), record(2), record(3))
    batches = consumer.each_batch(max_records: 3, max_wait: 60)
    batches.next.first.retry
    wait_until("the first record is retried") { @server.settles.any? }
    deliver(second(1), second(2), second(3), record(4, batch: "b2"), record(5, batch: "b2"))
    assert_equal [[1, 2], [4, 1], [5, 1]], attempts(batches.next)
    consumer.close
    assert_equal [%w[a1-1 retry], %w[a2-2 ack], %w[a3-2 ack]], @server.outcomes.sort
  end

  def test_record_of_a_running_handler_is_handed_out_once
    @server.stream(SESSION, record(1, lane: 1))
    handled = Thread::Queue.new
    release = Thread::Queue.new
    handler = lambda do |record|
      handled << record.sequence_number.to_i
      release.pop
    end
    consuming(consumer, handler, concurrency: 2) do
      assert_equal 1, handled.pop
      deliver(record(1, attempt: 2, batch: "b2", lane: 1), record(2, batch: "b2", lane: 1))
      release.close
      assert_equal 2, handled.pop
    end
    assert_empty handled
    assert_includes @server.outcomes, %w[a1-2 ack]
  end

  def test_record_is_handed_out_once_though_other_records_are_redelivered_later
    @server.stream(SESSION, record(1))
    batches = consumer.each_batch(max_records: 1)
    batches.next
    deliver(second(1), record(2, batch: "b2"))
    assert_equal [[2, 1]], attempts(batches.next)
    deliver(second(2, batch: "b3"), record(3, batch: "b3"))
    assert_equal [[3, 1]], attempts(batches.next)
    consumer.close
    assert_empty [%w[a1-2 ack], %w[a2-2 ack]] - @server.outcomes
  end

  %w[ack drop dead_letter].each do |outcome|
    define_method(:"test_#{outcome}_without_an_answer_settles_the_redelivery") do
      answer_nothing
      @server.stream(SESSION, record(1))
      records = consumer.each
      records.next.public_send(outcome)
      wait_until("the outcome is sent") { @server.settles.any? }
      deliver(second(1), record(2, batch: "b2"))
      @server.settle_answers.clear
      assert_equal "2", records.next.sequence_number
      wait_until("the redelivery is settled") { @server.outcomes.include?(["a1-2", outcome]) }
    end
  end

  def test_acknowledgement_that_is_not_sent_settles_the_redelivery
    @server.stream(SESSION, record(1))
    records = consumer(ack_interval: 3600).each
    records.next.ack
    deliver(second(1), record(2, batch: "b2"))
    assert_equal "2", records.next.sequence_number
    consumer.close
    assert_includes @server.outcomes, %w[a1-2 ack]
  end

  # The answer confirms the drop of the first delivery. The drop of the second one has no answer.
  def test_outcome_settles_each_redelivery_until_its_last_copy_is_answered
    answer_nothing
    @server.stream(SESSION, record(1))
    records = consumer.each
    records.next.drop
    wait_until("the drop is sent") { @server.settles.any? }
    deliver(second(1))
    @server.settle_answers.replace([nil] + [NO_ANSWER] * 1000)
    wait_until("the redelivery is dropped") { @server.outcomes.include?(%w[a1-2 drop]) }
    deliver(record(1, attempt: 3, batch: "b3"), record(2, batch: "b3"))
    @server.settle_answers.clear
    assert_equal "2", records.next.sequence_number
    wait_until("the second redelivery is dropped") { @server.outcomes.include?(%w[a1-3 drop]) }
  end

  # The drop of the other record has no answer yet.
  def test_retry_that_is_not_sent_retries_the_redelivery_once
    answer_nothing
    @server.stream(SESSION, record(1), record(2, batch: "b0", shard: "other"))
    batches = consumer.each_batch(max_records: 2, max_wait: 60)
    first, other = batches.next.records
    other.drop
    wait_until("the drop is sent") { @server.settles.any? }
    first.retry
    deliver(second(1), record(3, batch: "b2"))
    @server.settle_answers.clear
    wait_until("the redelivery is retried") { @server.outcomes.include?(%w[a1-2 retry]) }
    deliver(record(1, attempt: 3, batch: "b3"), second(3, batch: "b3"))
    assert_equal [[1, 3], [3, 2]], attempts(batches.next)
    assert_equal [%w[a1-2 retry]], @server.outcomes.select { |_, outcome| outcome == "retry" }
  end

  def test_record_that_is_retried_after_its_redelivery_is_handed_out_again
    @server.stream(SESSION, record(1))
    records = consumer.each
    first = records.next
    deliver(second(1))
    first.retry
    wait_until("the redelivery is retried") { @server.outcomes == [%w[a1-2 retry]] }
    deliver(record(1, attempt: 3, batch: "b3"))
    assert_equal 3, records.next.attempt
  end

  def test_record_is_handed_out_once_though_the_retry_of_its_earlier_delivery_is_answered
    records = retry_without_an_answer
    deliver(second(1))
    assert_equal [[1, 2]], handed_out(records, 1)
    refuse_repetition("EXPIRED")
    deliver(record(1, attempt: 3, batch: "b3"), record(4, batch: "b3"))
    assert_equal [[4, 1]], handed_out(records, 1)
  end

  def test_record_that_the_app_has_is_not_handed_out_by_the_next_lease_epoch
    @server.stream(SESSION, record(1))
    records = consumer.each
    records.next
    deliver(LEASE_LOST, of_next_epoch(1), of_next_epoch(2))
    assert_equal "2", records.next.sequence_number
    consumer.close
    assert_equal [%w[next1 ack]], @server.outcomes
  end

  def test_batch_of_which_a_record_is_redelivered_is_not_acknowledged_as_a_whole
    @server.stream(SESSION, record(1), record(2))
    first, second = consumer.each_batch(max_records: 2, max_wait: 60).next.records
    deliver(second(2), record(3, batch: "b3"))
    first.ack
    wait_until("the first record is acknowledged") { @server.outcomes == [%w[a1-1 ack]] }
    second.ack
    wait_until("the redelivery is acknowledged") { @server.outcomes.last == %w[b2 ack] }
  end

  def test_redelivered_record_is_extended_with_its_last_batch
    @server.stream(SESSION.merge("ack_deadline_ms" => 300), record(1))
    take(consumer, 1)
    deliver(second(1))
    @server.settles.clear
    wait_until("the record is extended") { @server.extensions.size >= 2 }
    assert_equal ["b2"], @server.extensions.map { |item| item["batch_id"] }.uniq
  end
end
