# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

require "test_helper"

# A consumer and a server that misbehaves.
class TroubleTest < ScriptedTestCase
  def disconnected_reasons
    @events.select { |event| event["type"] == "disconnected" }.map { |event| event["reason"] }
  end

  def test_whole_batch_is_acknowledged_by_one_item
    @server.stream(SESSION, record(1), record(2), record(3, batch: "b2"))
    take(consumer, 3)
    wait_until("the batch is acknowledged") { @server.outcomes.any? }
    assert_equal [%w[b1 ack]], @server.outcomes
    consumer.close
    assert_equal ["/v1/sessions/orders"], @server.deleted
  end

  def test_batch_that_continues_after_an_event_is_not_complete
    barrier = { "type" => "barrier", "barrier" => "9" }
    @server.stream(SESSION, record(1), record(2), barrier, record(3), record(4, batch: "b2"))
    records = consumer.each
    3.times { records.next }
    wait_until("two records are acknowledged") { @server.outcomes.size == 2 }
    assert_equal [%w[a1-1 ack], %w[a2-1 ack]], @server.outcomes
    records.next
    wait_until("the rest of the batch is acknowledged") { @server.outcomes.size == 3 }
    assert_equal %w[b1 ack], @server.outcomes.last
  end

  def test_records_of_an_open_batch_are_acknowledged_by_their_own_ids
    @server.stream(SESSION, record(1), record(2))
    take(consumer, 2)
    consumer.close
    assert_equal [%w[a1-1 ack]], @server.outcomes
  end

  def test_acknowledgements_wait_for_others
    @server.stream(SESSION, record(1), record(2, batch: "b2"), record(3, batch: "b3"))
    take(consumer(ack_interval: 60), 3)
    %w[one two].each do |type|
      @server.say({ "type" => type })
      wait_until("the event is read") { event_types.include?(type) }
    end
    assert_empty @server.settles
    consumer.close
    assert_equal [%w[b1 ack], %w[b2 ack]], @server.outcomes
  end

  def test_credit_does_not_wait_for_the_ack_interval
    @server.stream(SESSION.merge("max_in_flight" => 4), *(1..4).map { |number| record(number, batch: "b#{number}") })
    consuming(consumer(ack_interval: 60), ->(_) {}) do
      wait_until("half of the records are acknowledged") { @server.outcomes.size >= 2 }
    end
  end

  def test_first_outcome_counts
    @server.stream(SESSION, record(1))
    record, = take(consumer, 1)
    record.drop
    record.ack
    record.retry
    consumer.close
    assert_equal [%w[a1-1 drop]], @server.outcomes
  end

  def test_block_that_raises_retries_its_record
    @server.stream(SESSION, record(1))
    consumer.each do
      consumer.stop
      raise "odd"
    end
    assert_equal [{ "ack_id" => "a1-1", "outcome" => "retry", "reason" => "RuntimeError: odd" }], @server.items
  end

  def test_break_settles_nothing_and_closes
    @server.stream(SESSION, record(1), record(2))
    value = consumer.each { |record| break record.sequence_number if record.sequence_number == "2" }
    assert_equal "2", value
    assert_equal [%w[a1-1 ack]], @server.outcomes
    assert_equal ["/v1/sessions/orders"], @server.deleted
  end

  def test_break_with_several_handlers_settles_nothing_and_closes
    @server.stream(SESSION, record(1, lane: 3), record(2, lane: 3))
    value = consumer.each(concurrency: 4) { |record| break record.sequence_number if record.sequence_number == "2" }
    assert_equal "2", value
    assert_equal [%w[a1-1 ack]], @server.outcomes
    assert_equal ["/v1/sessions/orders"], @server.deleted
  end

  def test_exception_that_is_no_standard_error_leaves_the_run
    [1, 4].each do |concurrency|
      @server.stream(SESSION, record(1))
      consumer = KinesisSidecar::Consumer.new("orders", url: @server.url)
      assert_raises(SystemExit) { consumer.each(concurrency: concurrency) { exit } }
      assert_empty @server.outcomes
    end
    assert_equal 2, @server.deleted.size
  end

  def test_batch_block_that_raises_retries_the_records_without_an_outcome
    @server.stream(SESSION, record(1), record(2))
    consumer.each_batch(max_records: 2) do |batch|
      batch.first.ack
      consumer.stop
      raise "odd"
    end
    assert_equal [%w[a1-1 ack], %w[a2-1 retry]], @server.outcomes.sort
  end

  def test_batch_is_handed_out_after_its_wait
    @server.stream(SESSION, record(1), record(2))
    batches = consumer.each_batch(max_records: 500, max_wait: 0.3)
    assert_equal [1, 2], numbers(batches.next)
  end

  def test_batch_is_handed_out_after_its_wait_if_threads_change_slowly
    @server.stream(SESSION, record(1))
    slow = consumer
    slow.instance_variable_get(:@worker).instance_variable_get(:@waker).define_singleton_method(:call) do
      super()
      sleep 0.1
    end
    assert_equal [1], numbers(slow.each_batch(max_records: 500, max_wait: 0.3).next)
  end

  def test_enumerator_with_several_handlers_is_refused
    error = assert_raises(ArgumentError) { consumer.each(concurrency: 2) }
    assert_match "concurrency of 1", error.message
  end

  [400, 401, 403, 404].each do |status|
    define_method(:"test_stream_that_is_refused_by_#{status}_raises") do
      @server.stream(refusal(status, code: "some-code", detail: "a sentence"))
      error = assert_raises(KinesisSidecar::SidecarError) { take(consumer, 1) }
      assert_equal [status, "some-code", "#{status} a sentence"], [error.status, error.code, error.message]
    end
  end

  [409, 429, 500, 503].each do |status|
    define_method(:"test_stream_that_is_refused_by_#{status}_is_opened_again") do
      @server.stream(refusal(status, code: "aborted", retryable: true))
      @server.stream(SESSION, record(1))
      assert_equal [1], numbers(take(consumer, 1))
      assert_equal %w[disconnected session], event_types
      assert_match status.to_s, disconnected_reasons.first
    end
  end

  def test_retry_after_is_heeded
    @server.stream(refusal(503, headers: { "Retry-After" => "1" }))
    @server.stream(SESSION, record(1))
    take(consumer, 1)
    assert_operator @events.first["retry_in_ms"], :>=, 1000
  end

  def test_sidecar_that_is_away_is_waited_for
    away = KinesisSidecar::Consumer.new("orders", url: "http://127.0.0.1:1", on_event: @events.method(:<<))
    thread = running(away) { flunk }
    wait_until("it has tried again") { @events.size >= 2 }
    away.stop
    thread.join
    assert_equal %w[disconnected], event_types.uniq
  end

  ["{not JSON}\n", "[1]\n", "{\"type\":\"record\"}\n", "x" * 100].each_with_index do |broken, number|
    define_method(:"test_broken_frame_#{number}_drops_the_connection") do
      # Without an answer before the connection ends: a record that is acknowledged for sure does not come again.
      @server.settle_answers.concat([ScriptedServer::NO_ANSWER] * 2)
      @server.stream(SESSION, record(1), broken, nil)
      @server.stream(SESSION, record(1, attempt: 2, batch: "b2"), record(2, batch: "b2"))
      assert_equal [1, 2], numbers(take(consumer, 2))
      assert_includes event_types, "disconnected"
    end
  end

  def test_frame_that_is_too_long_drops_the_connection
    decoder = KinesisSidecar::Internal::Decoder.new(1000)
    error = assert_raises(KinesisSidecar::Internal::ProtocolError) { decoder.feed("x" * 2000) }
    assert_match "1000", error.message
  end

  def test_frames_arrive_in_pieces
    line = "#{JSON.generate(record(1, data: "ä" * 1000))}\n".b
    found = []
    decoder = KinesisSidecar::Internal::Decoder.new
    (line * 3).chars.each_slice(7) do |piece|
      decoder.feed(piece.join) { |head, lines| found.concat(lines.map { |one| [head["batch_id"], one] }) }
    end
    assert_equal [["b1", line.chomp]] * 3, found
  end

  def test_response_arrives_in_pieces
    bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\n\r\n".b
    (1..bytes.size).each do |size|
      response = KinesisSidecar::Internal::Response.new
      body = bytes.chars.each_slice(size).map { |piece| response.complete? ? "" : response.feed(piece.join) }.join
      assert_equal "abc0123456789", body
      assert_predicate response, :complete?
    end
  end

  def test_record_with_escapes_and_unknown_members_is_read
    @server.stream(SESSION, record(1, key: "\u0001\"ä", redriven: true, extra: [1]),
                   record(2, key: "ä", data: "\xFF".b))
    first, second = take(consumer, 2)
    assert_equal ["\u0001\"ä", true, "{}"], [first.partition_key, first.redriven?, first.data]
    assert_equal ["ä", false, "\xFF".b], [second.partition_key, second.redriven?, second.data]
    assert_equal Time.utc(2026), second.arrived_at
  end

  def test_lines_of_one_batch_may_have_other_forms
    lines = [record(1), record(2, key: "\"\n"), record(3).merge("extra" => "x"), record(4, aggregated: true), record(5)]
    @server.stream(SESSION, *lines)
    records = take(consumer, 5)
    assert_equal [1, 2, 3, 4, 5], numbers(records)
    assert_equal ["k", "\"\n", "k", "k", "k"], records.map(&:partition_key)
    assert_equal [false, false, false, true, false], records.map(&:aggregated?)
    assert_equal [{}] * 5, records.map(&:json)
  end

  def test_line_with_another_order_of_members_has_the_same_sequence_numbers
    one, other = [record(1), record(1).to_a.reverse.to_h].map { |members| JSON.generate(members).b }
    line = KinesisSidecar::Internal::Line
    assert_equal line.sequence_numbers(one), line.sequence_numbers(other)
  end

  def test_damaged_line_in_a_batch_drops_the_connection
    damaged = JSON.generate(record(2))[..-9]
    @server.stream(SESSION, record(1), "#{damaged}\n", nil)
    @server.stream(SESSION, record(1, attempt: 2, batch: "b2"), record(2, batch: "b2"))
    assert_equal [1, 2], numbers(take(consumer, 2))
    assert_includes event_types, "disconnected"
  end

  def test_unknown_event_is_passed_on
    @server.stream(SESSION, { "type" => "new", "x" => 1 }, record(1))
    take(consumer, 1)
    assert_includes @events, { "type" => "new", "x" => 1 }
  end

  def test_missed_heartbeats_end_the_connection
    @server.stream(SESSION.merge("heartbeat_ms" => 100))
    @server.stream(SESSION, record(1))
    take(consumer, 1)
    assert_includes disconnected_reasons, "no heartbeat"
  end

  def test_take_over_raises
    @server.stream(SESSION, { "type" => "ended", "reason" => "taken_over" })
    assert_raises(KinesisSidecar::SessionTakenOver) { take(consumer, 1) }
    consumer.close
    assert_empty @server.deleted
  end

  def test_take_over_ends_a_run_with_several_handlers
    @server.stream(SESSION, { "type" => "ended", "reason" => "taken_over" })
    assert_raises(KinesisSidecar::SessionTakenOver) { consumer.run(concurrency: 4) { flunk } }
  end

  def test_outcome_of_a_running_handler_settles_the_redelivery
    @server.stream(SESSION, record(1))
    @server.stream(SESSION, record(1, attempt: 2, batch: "b2"), record(2, batch: "b2"))
    records = consumer(ack_interval: 60).each
    records.next
    @server.say(nil)
    second = records.next
    assert_equal "2", second.sequence_number
    second.ack
    consumer.close
    assert_equal [%w[a1-2 ack], %w[a2-1 ack]], @server.outcomes.sort
  end

  def test_outcome_that_was_not_confirmed_settles_the_redelivery
    @server.settle_answers.concat([refusal(503)] * 3)
    @server.stream(SESSION, record(1))
    @server.stream(SESSION, record(1, attempt: 2, batch: "b2"), record(2, batch: "b2"))
    records = consumer.each
    records.next.drop
    wait_until("the settlement is refused for now") { @server.settles.any? }
    @server.say(nil)
    assert_equal "2", records.next.sequence_number
    wait_until("the redelivery is dropped") { @server.outcomes.include?(%w[a1-2 drop]) }
  end

  # Ends the session, and begins one with these records.
  def begin_session(*records)
    begun = event_types.count("session")
    @server.stream(SESSION, *records)
    @server.say(nil)
    wait_until("the next session") { event_types.count("session") > begun }
  end

  # Record 1 gets an outcome that the sidecar does not confirm. The last batch of the session is a later one.
  def settle_without_an_answer(outcome)
    @server.settle_answers.concat([refusal(503)] * 1000)
    @server.stream(SESSION, record(1), record(2, batch: "b2"))
    records = consumer.each
    records.next.public_send(outcome)
    wait_until("the settlement is refused for now") { @server.settles.any? }
    records
  end

  %w[ack drop].each do |outcome|
    define_method(:"test_#{outcome}_that_was_not_confirmed_is_kept_over_a_session_without_its_record") do
      records = settle_without_an_answer(outcome)
      begin_session
      begin_session(record(1, attempt: 3, batch: "b3"), record(2, batch: "b3"))
      @server.settle_answers.clear
      assert_equal "2", records.next.sequence_number
      wait_until("the redelivery is settled") { @server.outcomes.include?(["a1-3", outcome]) }
    end

    define_method(:"test_#{outcome}_that_two_sessions_did_not_confirm_settles_the_redelivery") do
      records = settle_without_an_answer(outcome)
      begin_session(record(1, attempt: 2, batch: "b2"))
      wait_until("the redelivery is settled, without an answer") { @server.outcomes.include?(["a1-2", outcome]) }
      begin_session(record(1, attempt: 3, batch: "b3"), record(2, batch: "b3"))
      @server.settle_answers.clear
      assert_equal "2", records.next.sequence_number
      wait_until("the second redelivery is settled") { @server.outcomes.include?(["a1-3", outcome]) }
    end

    define_method(:"test_#{outcome}_is_forgotten_if_the_session_goes_on_without_its_record") do
      records = settle_without_an_answer(outcome)
      begin_session(record(2, batch: "b2"))
      assert_equal "2", records.next.sequence_number
      begin_session(record(1, attempt: 2, batch: "b3"))
      assert_equal "1", records.next.sequence_number
    end
  end

  def test_record_that_is_decided_in_a_session_without_it_is_settled_in_the_next
    @server.stream(SESSION, record(1))
    records = consumer.each
    first = records.next
    begin_session
    first.drop
    begin_session(record(1, attempt: 2, batch: "b2"), record(2, batch: "b2"))
    assert_equal "2", records.next.sequence_number
    wait_until("the redelivery is settled") { @server.outcomes.include?(%w[a1-2 drop]) }
    assert_equal 0, consumer.stale
  end

  def test_redriven_record_is_handed_out_though_its_first_outcome_was_not_confirmed
    records = settle_without_an_answer(:dead_letter)
    begin_session(record(1, batch: "b2", redriven: true))
    assert_predicate records.next, :redriven?
  end

  def test_outcome_of_a_redriven_record_is_forgotten_after_a_session_without_it
    @server.settle_answers.concat([refusal(503)] * 1000)
    @server.stream(SESSION, record(1, redriven: true))
    records = consumer.each
    records.next.drop
    wait_until("the settlement is refused for now") { @server.settles.any? }
    begin_session
    begin_session(record(1, batch: "b3", redriven: true))
    assert_equal "b3", records.next.group.batch_id
  end

  def test_later_redriven_record_forgets_no_outcome
    records = settle_without_an_answer(:drop)
    begin_session(record(9, batch: "b2", redriven: true))
    assert_predicate records.next, :redriven?
    begin_session(record(1, attempt: 2, batch: "b3"), record(2, batch: "b3"))
    assert_equal "2", records.next.sequence_number
  end

  [[409, "session-fenced"], [410, "session-expired"]].each do |status, code|
    define_method(:"test_settlements_refused_by_#{status}_are_stale") do
      @server.settle_answers << refusal(status, code: code)
      @server.stream(SESSION, record(1), record(2))
      take(consumer, 2)
      wait_until("the settlement is stale") { consumer.stale == 1 }
    end
  end

  def test_settlements_that_are_not_answered_are_sent_again
    @server.settle_answers.concat([refusal(503, headers: { "Retry-After" => "0" }), refusal(429)])
    @server.stream(SESSION, record(1))
    take(consumer, 1).first.ack
    wait_until("the settlement is sent again") { @server.settles.size >= 3 }
    assert_equal [%w[a1-1 ack]], @server.outcomes.uniq
  end

  def test_retry_after_of_a_settle_request_is_heeded
    @server.settle_answers << refusal(503, headers: { "Retry-After" => "1" })
    @server.stream(SESSION, record(1))
    take(consumer, 1).first.drop
    wait_until("the settlement is sent again") { @server.settles.size == 2 }
    first, second = @server.settles.map(&:time)
    assert_operator second - first, :>=, 1.0
  end

  def test_refused_items_are_reported
    @server.settle_answers << (answer = ScriptedServer.item_refusal("a1-1", "EXPIRED"))
    @server.stream(SESSION, record(1))
    take(consumer, 1).first.drop
    wait_until("the refusal is counted") { consumer.failed == 1 }
    event = { "type" => "settle_failed", **answer.content["failed"].first }
    wait_until("the refusal is an event") { @events.include?(event) }
  end

  def test_refused_settle_request_raises
    @server.settle_answers << refusal(401, detail: "the token is wrong")
    @server.stream(SESSION, record(1))
    error = assert_raises(KinesisSidecar::SidecarError) { consumer.each(&:drop) }
    assert_match "the token is wrong", error.message
  end

  def test_refused_settle_request_takes_no_acknowledgement_along
    @server.settle_answers << refusal(400, detail: "there is no place for dead letters")
    @server.stream(SESSION, record(1), record(2), record(3))
    error = assert_raises(KinesisSidecar::SidecarError) do
      consumer(ack_interval: 60).each { |record| record.dead_letter if record.sequence_number == "2" }
    end
    assert_match "no place", error.message
    assert_equal 1, @server.settles.first.body["settlements"].size
    consumer.close
    assert_equal %w[a2-1 dead_letter], @server.outcomes.first
    assert_includes @server.outcomes, %w[a1-1 ack]
  end

  def test_records_of_a_lost_connection_wait_for_their_redelivery
    @server.stream(SESSION, record(1), record(2))
    @server.stream(refusal(503, headers: { "Retry-After" => "1" }))
    @server.stream(SESSION, record(2, attempt: 2, batch: "b2"))
    records = consumer.each
    records.next
    @server.say(nil)
    wait_until("the connection is lost") { event_types.include?("disconnected") }
    assert_equal 2, records.next.attempt
  end

  def test_running_handler_is_remembered_over_two_reconnects
    @server.stream(SESSION, record(1, lane: 1))
    @server.stream(SESSION, nil)
    @server.stream(SESSION, record(1, attempt: 2, batch: "b2", lane: 1), record(2, batch: "b2", lane: 2))
    handled = Thread::Queue.new
    release = Thread::Queue.new
    handler = lambda do |record|
      handled << [record.sequence_number.to_i, record.attempt]
      release.pop if record.sequence_number == "1"
    end
    consuming(consumer, handler, concurrency: 2) do
      assert_equal [1, 1], handled.pop
      @server.say(nil)
      assert_equal [2, 1], handled.pop
      release.close
      wait_until("the redelivery is acknowledged") { @server.outcomes.include?(%w[a1-2 ack]) }
    end
    assert_empty handled
  end

  def test_redriven_record_outlives_a_lost_lease
    lost = { "type" => "lease_lost", "shard_id" => "shardId-000000000000" }
    @server.stream(SESSION, record(1), record(2, batch: "b2", redriven: true), record(3, batch: "b3"))
    records = consumer.each
    records.next
    @server.say(lost)
    wait_until("the lease is lost") { @events.include?(lost) }
    @server.say(record(4, batch: "b4"))
    assert_equal [2, 4], numbers(Array.new(2) { records.next })
  end

  def test_token_file_is_read_for_each_request
    Dir.mktmpdir do |folder|
      path = "#{folder}/token"
      File.write(path, "first\n")
      @server.stream(SESSION, record(1), record(2))
      record, = take(consumer(token_file: path), 1)
      File.write(path, "second\n")
      record.drop
      wait_until("the record is settled") { @server.settles.any? }
    end
    assert_equal "Bearer first", @server.opened.first.headers["Authorization"]
    assert_equal "Bearer second", @server.settles.first.headers["Authorization"]
  end

  # Records 1 to 3 are in one batch. The first one is retried before the others are handed out.
  def retry_while_others_wait
    @server.stream(SESSION, record(1), record(2), record(3))
    records = consumer.each
    records.next.retry(reason: "not yet")
    wait_until("the retry is sent") { @server.settles.any? }
    records
  end

  def test_records_after_a_retry_are_handed_out_after_its_redelivery
    records = retry_while_others_wait
    (1..3).each { |number| @server.say(record(number, attempt: 2, batch: "b2")) }
    assert_equal [[1, 2], [2, 2], [3, 2]], handed_out(records, 3)
    item = { "ack_id" => "a1-1", "outcome" => "retry", "reason" => "not yet" }
    assert_equal({ "settlements" => [item], "barrier" => "1" }, @server.settles.first.body)
  end

  def test_records_before_the_barrier_of_a_retry_are_taken_back_though_they_come_after_its_answer
    @server.says_barriers = false
    records = retry_while_others_wait
    @server.say(record(1, batch: "b2", shard: "other"))
    records.next.ack
    wait_until("the retry was answered") { @server.settles.size >= 2 }
    [record(4, batch: "b3"), record(2, batch: "b4", shard: "other")].each { |one| @server.say(one) }
    assert_equal "other", records.next.shard_id
    @server.say({ "type" => "barrier", "barrier" => "1" })
    (1..4).each { |number| @server.say(record(number, attempt: 2, batch: "b5")) }
    assert_equal [[1, 2], [2, 2], [3, 2], [4, 2]], handed_out(records, 4)
  end

  def test_retry_from_before_a_reconnect_holds_its_lane
    @server.settle_answers << refusal(503, headers: { "Retry-After" => "30" })
    @server.stream(SESSION, record(1, lane: 3))
    @server.stream(SESSION, record(1, attempt: 2, batch: "b2", lane: 3), record(2, batch: "b2", lane: 3))
    handled = Thread::Queue.new
    handler = lambda do |record|
      handled << [record.sequence_number.to_i, record.attempt]
      raise "odd" if record.attempt == 1
    end
    consuming(consumer, handler, concurrency: 4) do
      wait_until("the retry is refused for now") { @server.settles.any? }
      @server.say(nil)
      wait_until("the redelivery is retried") { @server.outcomes.include?(%w[a1-2 retry]) }
      @server.say(record(1, attempt: 3, batch: "b3", lane: 3))
      @server.say(record(2, attempt: 2, batch: "b3", lane: 3))
      assert_equal [[1, 1], [1, 3], [2, 2]], Array.new(3) { handled.pop }
    end
  end

  # SETTLED: another delivery of the record was settled.
  %w[MALFORMED SETTLED].each do |reason|
    define_method(:"test_records_after_a_retry_that_is_refused_as_#{reason}_are_handed_out") do
      @server.settle_answers << ScriptedServer.item_refusal("a1-1", reason)
      records = retry_while_others_wait
      assert_equal [2, 3], numbers(Array.new(2) { records.next })
      assert_equal 1, consumer.failed
    end
  end

  def test_other_shards_are_handed_out_while_a_retry_waits
    @server.settle_answers << refusal(503)
    @server.stream(SESSION, record(1), record(2, batch: "b2", shard: "other"))
    records = consumer.each
    records.next.retry
    assert_equal "other", records.next.shard_id
  end

  def test_lost_lease_takes_its_records
    @server.stream(SESSION, record(1), record(2), record(3, batch: "b2", shard: "other"))
    records = consumer.each
    assert_equal "1", records.next.sequence_number
    @server.say({ "type" => "lease_lost", "shard_id" => "shardId-000000000000" })
    wait_until("the lease is lost") { event_types.include?("lease_lost") }
    assert_equal "other", records.next.shard_id
  end

  def test_records_of_the_app_are_extended
    @server.stream(SESSION.merge("ack_deadline_ms" => 300), record(1), record(2))
    take(consumer, 1)
    wait_until("the batch is extended twice") { @server.extensions.size >= 2 }
    assert_equal [{ "batch_id" => "b1", "outcome" => "extend", "delay_ms" => 300 }], @server.extensions.uniq
  end

  def test_extension_ends_with_max_processing
    @server.stream(SESSION.merge("ack_deadline_ms" => 30), record(1))
    records = consumer(max_processing: 0).each
    records.next.extend_deadline(5)
    wait_until("the extension that was asked for is sent") { @server.extensions.any? }
    @server.say(record(2, batch: "b2"))
    records.next.drop
    wait_until("the next record is settled") { @server.outcomes.size == 2 }
    assert_equal [{ "ack_id" => "a1-1", "outcome" => "extend", "delay_ms" => 5000 }], @server.extensions
  end

  def test_reason_is_text_that_the_sidecar_takes
    @server.stream(SESSION, record(1))
    take(consumer, 1).first.dead_letter("\0\xFF".b + "x" * 1000)
    consumer.close
    assert_equal "??#{"x" * 498}", @server.items.first["reason"]
  end

  def test_data_that_is_not_json_is_a_failure_of_the_handler
    @server.stream(SESSION, record(1, data: "{"))
    consuming(consumer, :json.to_proc) { wait_until("the record is retried") { @server.outcomes.any? } }
    assert_equal [%w[a1-1 retry]], @server.outcomes
    assert_match(/\AJSON::ParserError: /, @server.items.first["reason"])
  end

  def test_persisted_ack_that_is_refused_is_false
    @server.settle_answers << ScriptedServer::Answer.new(200, { "ok" => 1, "failed" => [], "persisted" => false }, {})
    @server.stream(SESSION, record(1))
    assert_equal false, take(consumer, 1).first.ack(persisted: true)
    assert_equal "persisted", @server.settles.first.body["wait"]
  end

  def test_child_of_a_fork_is_refused
    @server.stream(SESSION, record(1))
    take(consumer, 1)
    pid = fork do
      take(consumer, 1)
    rescue KinesisSidecar::SidecarError => e
      exit!(e.message.include?("fork") ? 7 : 1)
    end
    assert_equal 7, Process.wait2(pid).last.exitstatus
  end

  def test_closed_consumer_is_refused
    consumer.close
    assert_raises(KinesisSidecar::SidecarError) { take(consumer, 1) }
  end

  ["ftp://x", "http://", "unix:relative", "http://127.0.0.1:1/path", "http://a b"].each_with_index do |url, number|
    define_method(:"test_bad_address_#{number}_is_refused") do
      error = assert_raises(ArgumentError) { KinesisSidecar::Consumer.new("orders", url: url) }
      assert_match(/HOST:PORT|absolute/, error.message)
    end
  end

  {
    "a_share" => [{ share: "0.05", salt: "v2" }, "ordering=key&lanes=64&share=0.05&salt=v2"],
    "lanes" => [{ share: "0.5", ordering: :key, lanes: 8 }, "ordering=key&lanes=8&share=0.5"],
    "a_filter" => [{ filter: '{"a":["+ &"]}' }, "ordering=shard&filter=%7B%22a%22%3A%5B%22%2B%20%26%22%5D%7D"],
    "a_hash" => [{ filter: { a: ["\u00e4"] } }, "ordering=shard&filter=%7B%22a%22%3A%5B%22%C3%A4%22%5D%7D"],
    "nothing" => [{}, "ordering=shard"],
  }.each do |what, (options, wanted)|
    define_method(:"test_stream_is_asked_for_the_records_that_the_consumer_wants_with_#{what}") do
      @server.stream(SESSION, record(1))
      take(consumer(**options), 1)
      assert @server.opened.first.path.end_with?("&heartbeat_ms=10000&#{wanted}"), @server.opened.first.path
    end
  end

  def test_share_that_is_a_number_is_refused
    error = assert_raises(ArgumentError) { KinesisSidecar::Consumer.new("orders", share: 0.05) }
    assert_match "share must be a text", error.message
  end

  def test_bad_client_id_is_refused
    ["", "a b", "x" * 65, "a\n"].each do |client_id|
      error = assert_raises(ArgumentError) { KinesisSidecar::Consumer.new(client_id) }
      assert_match "client_id must be", error.message
    end
  end
end
