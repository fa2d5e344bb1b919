# SPDX-License-Identifier: Apache-2.0
"""Redeliveries in one session: of records that the app has retried, and of records that it has."""

import asyncio
import collections
import contextlib
import threading

import pytest
from support import NO_ANSWER, SESSION, consumer_of, handed_out, numbers, record_line, refuse_item, wait_until

from kinesis_sidecar import aio

BARRIER = {"type": "barrier", "barrier": "1"}  # Of the copy that the sidecar did not answer.
LEASE_LOST = {"type": "lease_lost", "shard_id": "shardId-000000000000"}


def redeliver(server, consumer, *lines, batch="b2"):
    """Sends the lines as a batch of their own, and waits until the consumer has received them."""
    for line in lines:
        server.say(dict(line, batch_id=batch))
    wait_until(lambda: has_received(consumer, batch, len(lines)), "the redelivery is received")


def has_received(consumer, batch_id, count):
    group = consumer._engine.group
    return group is not None and (group.batch_id, group.count) == (batch_id, count)


def second(number):
    return record_line(number, attempt=2)


def of_next_epoch(number):
    return dict(record_line(number), epoch=2, ack_id=f"next{number}")


# --- The retry is refused because its record is redelivered ---

@contextlib.contextmanager
def unanswered_retry(server, **options):
    """Yields a consumer and its records. The app has retried record 1 and has not begun 2 and 3. The retry has no
    answer."""
    server.streams.put([SESSION, record_line(1), record_line(2), record_line(3)])
    server.settle_answers.extend([NO_ANSWER] * 1000)
    with consumer_of(server, **options) as consumer:
        records = iter(consumer)
        next(records).retry()
        wait_until(lambda: has_received(consumer, "b1", 3) and server.settles, "the retry is sent")
        yield consumer, records


def refuse_repetition(server, consumer, reason):
    server.settle_answers = collections.deque([refuse_item("a1.1", reason)])
    wait_until(lambda: consumer._engine.pending is None, "the repeated retry is refused")


@pytest.mark.parametrize("reason", ["EXPIRED", "FENCED"])
def test_repeated_retry_that_is_refused_before_the_redelivery_counts_as_accepted(server, reason):
    events = []
    with unanswered_retry(server, on_event=events.append) as (consumer, records):
        server.say(BARRIER)
        refuse_repetition(server, consumer, reason)
        redeliver(server, consumer, second(1), second(2), second(3))
        assert handed_out(records, 3) == [(1, 2), (2, 2), (3, 2)]
        assert consumer.failed == 0
    assert "settle_failed" not in [event["type"] for event in events]


@pytest.mark.parametrize("reason", ["EXPIRED", "FENCED"])
def test_repeated_retry_that_is_refused_after_the_redelivery_counts_as_accepted(server, reason):
    with unanswered_retry(server) as (consumer, records):
        server.say(BARRIER)
        redeliver(server, consumer, second(1), second(2), second(3))
        refuse_repetition(server, consumer, reason)
        assert handed_out(records, 3) == [(1, 2), (2, 2), (3, 2)]
        assert consumer.failed == 0


@pytest.mark.parametrize("reason", ["MALFORMED", "SETTLED"])
def test_repeated_retry_that_took_nothing_back_hands_out_the_waiting_records(server, reason):
    with unanswered_retry(server) as (consumer, records):
        refuse_repetition(server, consumer, reason)
        assert handed_out(records, 2) == [(2, 1), (3, 1)]
        assert consumer.failed == 1


def test_retry_of_a_settled_record_hands_out_the_waiting_records_after_the_barrier(server):
    """Another delivery of record 1 was settled."""
    server.says_barriers = False
    server.streams.put([SESSION, record_line(1), record_line(2), record_line(3)])
    server.settle_answers.append(refuse_item("a1.1", "SETTLED"))
    with consumer_of(server) as consumer:
        records = iter(consumer)
        next(records).retry()
        wait_until(lambda: consumer.failed == 1, "the retry is refused")
        redeliver(server, consumer, record_line(4))
        server.say(BARRIER)
        assert handed_out(records, 3) == [(2, 1), (3, 1), (4, 1)]


def test_retry_after_a_lost_lease_takes_nothing_of_the_next_lease_back(server):
    """Another sidecar has settled record 1."""
    server.says_barriers = False
    server.streams.put([SESSION, record_line(1)])
    server.settle_answers.append(refuse_item("a1.1", "FENCED"))
    with consumer_of(server) as consumer:
        records = iter(consumer)
        record = next(records)
        server.say(LEASE_LOST)
        redeliver(server, consumer, of_next_epoch(2))
        record.retry()
        wait_until(lambda: server.settles and consumer._engine.pending is None, "the retry is refused")
        redeliver(server, consumer, of_next_epoch(3), batch="b3")
        server.say(BARRIER)
        assert handed_out(records, 2) == [(2, 1), (3, 1)]


def test_repeated_retry_of_an_unknown_id_holds_its_scope_until_the_next_session(server):
    """The sidecar accepted the first request, wrote its barrier, and was restarted."""
    with unanswered_retry(server) as (consumer, records):
        server.say(BARRIER)
        refuse_repetition(server, consumer, "UNKNOWN")
        server.streams.put([SESSION, *(dict(record_line(number), batch_id="b2") for number in (1, 2, 3))])
        server.say(None)
        assert handed_out(records, 3) == [(1, 1), (2, 1), (3, 1)]
        assert consumer.failed == 1


def test_first_retry_that_is_expired_waits_for_the_redelivery(server):
    """The ack deadline of record 1 has passed: both records are on their way again."""
    server.says_barriers = False
    server.streams.put([SESSION, record_line(1), record_line(2)])
    server.settle_answers.append(refuse_item("a1.1", "EXPIRED"))
    with consumer_of(server) as consumer:
        records = iter(consumer)
        next(records).retry()
        wait_until(lambda: server.settles and consumer._engine.pending is None, "the retry is refused")
        redeliver(server, consumer, second(1), second(2))
        server.say(BARRIER)
        assert handed_out(records, 2) == [(1, 2), (2, 2)]
        assert consumer.failed == 0


def test_refused_retry_waits_for_its_barrier(server):
    """The sidecar was restarted: the session is one of another process."""
    server.says_barriers = False
    server.streams.put([SESSION, record_line(1), record_line(2)])
    server.settle_answers.append(refuse_item("a1.1", "UNKNOWN"))
    with consumer_of(server) as consumer:
        records = iter(consumer)
        next(records).retry()
        wait_until(lambda: consumer.failed == 1, "the retry is refused")
        server.streams.put([SESSION, dict(record_line(1), batch_id="b2"), dict(record_line(2), batch_id="b2")])
        server.say(None)
        assert handed_out(records, 2) == [(1, 1), (2, 1)]


def test_redelivery_replaces_the_records_of_its_scope_that_wait(server):
    """An ack deadline has passed. Record 1 is the app's."""
    server.streams.put([SESSION, record_line(1), record_line(2), record_line(3)])
    with consumer_of(server) as consumer:
        records = iter(consumer)
        next(records)
        wait_until(lambda: has_received(consumer, "b1", 3), "all are received")
        redeliver(server, consumer, second(2), second(3))
        assert handed_out(records, 2) == [(2, 2), (3, 2)]


def test_retry_of_an_ended_session_holds_its_scope_until_the_next(server):
    server.streams.put([SESSION, record_line(1), record_line(2)])
    server.settle_answers.append((410, {"code": "session-expired"}, {}))
    with consumer_of(server) as consumer:
        records = iter(consumer)
        next(records).retry()
        wait_until(lambda: consumer.stale == 1, "the settlement is stale")
        server.streams.put([SESSION, dict(second(1), batch_id="b2"), dict(second(2), batch_id="b2")])
        server.say(None)
        assert handed_out(records, 2) == [(1, 2), (2, 2)]


def test_repeated_drop_that_is_expired_counts_as_refused(server):
    server.streams.put([SESSION, record_line(1)])
    server.settle_answers.extend([NO_ANSWER, refuse_item("a1.1", "EXPIRED")])
    with consumer_of(server) as consumer:
        next(iter(consumer)).drop()
        wait_until(lambda: consumer.failed == 1, "the refusal is counted")


def test_retry_that_a_kept_connection_repeats_counts_as_accepted(server):
    server.streams.put([SESSION, record_line(1), record_line(2), record_line(3)])
    with consumer_of(server) as consumer:
        records = iter(consumer)
        next(records).drop()
        wait_until(lambda: server.settles, "the connection is open")
        server.settle_answers.extend([NO_ANSWER, refuse_item("a2.1", "EXPIRED")])
        next(records).retry()
        wait_until(lambda: len(server.settles) == 3, "the retry is repeated")
        server.say(BARRIER)
        redeliver(server, consumer, second(2), second(3))
        assert handed_out(records, 2) == [(2, 2), (3, 2)]
        assert consumer.failed == 0


def test_aio_retry_that_a_kept_connection_repeats_counts_as_accepted(server):
    server.streams.put([SESSION, record_line(1), record_line(2)])

    async def run():
        async with aio.Consumer("orders", url=server.url) as consumer:
            async for record in consumer:
                if record.sequence_number == "1":
                    record.drop()
                    await asyncio.to_thread(wait_until, lambda: server.settles, "the connection is open")
                    server.settle_answers.extend([NO_ANSWER, refuse_item("a2.1", "EXPIRED")])
                    continue
                record.retry()
                await asyncio.to_thread(wait_until, lambda: len(server.settles) == 3, "the retry is repeated")
                break
        assert consumer.failed == 0
    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.parametrize("ordering", ["shard", "none"])
def test_redelivery_of_a_retried_record_is_handed_out_before_the_answer(server, ordering):
    with unanswered_retry(server, ordering=ordering) as (consumer, records):
        redeliver(server, consumer, second(1))
        wanted = 1 if ordering == "shard" else 3
        assert handed_out(records, wanted)[-1] == (1, 2)


def test_redelivery_before_the_barrier_is_not_taken_back(server):
    """The sidecar has not received the first copy: the ack deadline of record 1 has passed."""
    with unanswered_retry(server) as (consumer, records):
        redeliver(server, consumer, second(1), second(2), second(3))
        refuse_repetition(server, consumer, "EXPIRED")
        wait_until(lambda: consumer._engine.barriers_seen == 1, "the barrier is received")
        assert handed_out(records, 3) == [(1, 2), (2, 2), (3, 2)]


def test_redelivery_of_another_retried_record_does_not_end_the_hold(server):
    server.streams.put([SESSION, record_line(1), record_line(2)])
    with consumer_of(server) as consumer:
        batches = consumer.batches(max_records=2, max_wait=60.0)
        first, other = next(batches)
        other.retry()
        wait_until(lambda: consumer._engine.barriers_seen == 1, "the other record is retried")
        server.settle_answers.extend([NO_ANSWER] * 1000)
        first.retry()
        wait_until(lambda: len(server.settles) >= 2, "the retry is sent")
        redeliver(server, consumer, second(2), record_line(3))
        refuse_repetition(server, consumer, "MALFORMED")
        assert handed_out(iter(next(batches)), 2) == [(2, 2), (3, 1)]


def test_retry_takes_back_no_record_of_the_next_lease_epoch(server):
    """The lease begins again behind record 1."""
    with unanswered_retry(server) as (consumer, records):
        server.say(LEASE_LOST)
        redeliver(server, consumer, of_next_epoch(2))
        refuse_repetition(server, consumer, "FENCED")
        wait_until(lambda: consumer._engine.barriers_seen == 1, "the barrier is received")
        assert next(records).epoch == 2


# --- A loop is left ---

def test_record_of_a_loop_that_was_left_is_handed_out_by_the_next_loop(server):
    server.streams.put([SESSION, record_line(1), record_line(2), record_line(3)])
    with consumer_of(server) as consumer:
        for record in consumer:
            if record.sequence_number == "2":
                break
        assert handed_out(consumer, 2) == [(2, 1), (3, 1)]
    assert server.outcomes() == [("a1.1", "ack"), ("a2.1", "ack")]


def test_records_of_a_batch_that_was_left_are_handed_out_by_the_next_loop(server):
    server.streams.put([SESSION, record_line(1), record_line(2), record_line(3), record_line(4)])
    with consumer_of(server) as consumer:
        for batch in consumer.batches(max_records=3, max_wait=60.0):
            batch.records[1].drop()
            break
        assert handed_out(consumer, 1) == [(1, 1)]
        assert handed_out(iter(next(consumer.batches(max_records=3, max_wait=60.0))), 3) == [(1, 1), (3, 1), (4, 1)]
    assert server.outcomes() == [("a2.1", "drop")]


def test_record_that_got_its_outcome_after_the_loop_is_not_handed_out_again(server):
    server.streams.put([SESSION, record_line(1), record_line(2)])
    with consumer_of(server) as consumer:
        first = next(iter(consumer))
        first.ack()
        assert handed_out(consumer, 1) == [(2, 1)]
    assert server.outcomes() == [("a1.1", "ack")]


def test_record_of_a_loop_that_was_left_is_handed_out_once_after_its_redelivery(server):
    server.streams.put([SESSION, record_line(1)])
    with consumer_of(server) as consumer:
        next(iter(consumer))
        redeliver(server, consumer, second(1), record_line(2))
        assert numbers([record for _, record in zip(range(2), consumer)]) == [1, 2]
    assert ("a1.2", "ack") in server.outcomes()


def test_records_that_a_retry_takes_back_from_a_loop_that_was_left_are_handed_out_behind_it(server):
    server.streams.put([SESSION, record_line(1), record_line(2), record_line(3)])
    with consumer_of(server) as consumer:
        next(consumer.batches(max_records=2, max_wait=60.0)).records[0].retry()
        wait_until(lambda: consumer._engine.barriers_seen == 1, "the record is retried")
        redeliver(server, consumer, second(1), second(2), second(3))
        assert numbers([record for _, record in zip(range(3), consumer)]) == [1, 2, 3]


def test_record_of_a_lost_lease_is_not_handed_out_by_the_next_loop(server):
    server.streams.put([SESSION, record_line(1)])
    with consumer_of(server) as consumer:
        next(iter(consumer))
        server.say(LEASE_LOST)
        redeliver(server, consumer, of_next_epoch(2))
        assert numbers([next(iter(consumer))]) == [2]


def test_aio_record_of_a_loop_that_was_left_is_handed_out_by_the_next_loop(server):
    server.streams.put([SESSION, record_line(1), record_line(2)])

    async def run():
        async with aio.Consumer("orders", url=server.url) as consumer:
            async for record in consumer:
                break
            async for batch in consumer.batches(max_records=2):
                return numbers(batch)
    assert asyncio.run(asyncio.wait_for(run(), 60)) == [1, 2]


# --- The app has the record that is redelivered ---

def test_rest_of_a_batch_is_not_handed_out_again_after_a_retry_of_its_first_record(server):
    server.streams.put([SESSION, record_line(1), record_line(2), record_line(3)])
    with consumer_of(server) as consumer:
        batches = consumer.batches(max_records=3, max_wait=60.0)
        next(batches).records[0].retry()
        wait_until(lambda: consumer._engine.barriers_seen == 1, "the first record is retried")
        redeliver(server, consumer, second(1), second(2), second(3), record_line(4), record_line(5))
        assert handed_out(iter(next(batches)), 3) == [(1, 2), (4, 1), (5, 1)]
    assert sorted(server.outcomes()) == [("a1.1", "retry"), ("a2.2", "ack"), ("a3.2", "ack")]


def test_record_of_a_running_handler_is_not_handed_out_again(server):
    server.streams.put([SESSION, record_line(1)])
    begun, release, handled = threading.Event(), threading.Event(), []

    def handler(record):
        handled.append(int(record.sequence_number))
        begun.set()
        assert release.wait(60)

    with consumer_of(server) as consumer:
        thread = threading.Thread(target=consumer.run, args=(handler, 2), kwargs={"signals": False})
        thread.start()
        assert begun.wait(60)
        redeliver(server, consumer, second(1), record_line(2))
        release.set()
        wait_until(lambda: len(handled) == 2, "the next record is handled")
        consumer.stop()
        thread.join()
    assert handled == [1, 2]
    assert ("a1.2", "ack") in server.outcomes()


def test_record_is_not_handed_out_again_by_a_later_redelivery(server):
    server.streams.put([SESSION, record_line(1)])
    with consumer_of(server) as consumer:
        batches = consumer.batches(max_records=1)
        next(batches)
        redeliver(server, consumer, second(1), record_line(2))
        assert handed_out(iter(next(batches)), 1) == [(2, 1)]
        redeliver(server, consumer, second(2), record_line(3), batch="b3")
        assert handed_out(iter(next(batches)), 1) == [(3, 1)]
    assert {("a1.2", "ack"), ("a2.2", "ack")} <= set(server.outcomes())


@pytest.mark.parametrize("outcome", ["ack", "drop", "dead_letter"])
def test_outcome_without_an_answer_settles_the_redelivery(server, outcome):
    server.streams.put([SESSION, record_line(1)])
    server.settle_answers.extend([NO_ANSWER] * 1000)
    with consumer_of(server) as consumer:
        records = iter(consumer)
        getattr(next(records), outcome)()
        wait_until(lambda: server.settles, "the outcome is sent")
        redeliver(server, consumer, second(1), record_line(2))
        server.settle_answers.clear()
        assert numbers([next(records)]) == [2]
        wait_until(lambda: ("a1.2", outcome) in server.outcomes(), "the redelivery is settled")


def test_acknowledgement_that_is_not_sent_settles_the_redelivery(server):
    server.streams.put([SESSION, record_line(1)])
    with consumer_of(server, ack_interval=3600.0) as consumer:
        records = iter(consumer)
        next(records).ack()
        redeliver(server, consumer, second(1), record_line(2))
        assert numbers([next(records)]) == [2]
    assert ("a1.2", "ack") in server.outcomes()


def test_retry_that_is_not_sent_retries_the_redelivery(server):
    server.streams.put([SESSION, record_line(1), record_line(2, batch="b0", shard="other")])
    server.settle_answers.extend([NO_ANSWER] * 1000)
    with consumer_of(server) as consumer:
        batches = consumer.batches(max_records=2, max_wait=60.0)
        first, other = next(batches)
        other.drop()
        wait_until(lambda: server.settles, "the drop is sent, and retries wait for its answer")
        first.retry()
        redeliver(server, consumer, second(1), record_line(3))
        server.settle_answers.clear()
        wait_until(lambda: consumer._engine.barriers_seen == 1, "the redelivery is retried")
        server.say(record_line(1, attempt=3, batch="b3"))
        server.say(record_line(3, attempt=2, batch="b3"))
        assert handed_out(iter(next(batches)), 2) == [(1, 3), (3, 2)]
    assert [name for name, outcome in server.outcomes() if outcome == "retry"] == ["a1.2"]


def test_record_that_the_app_has_is_not_handed_out_again_by_the_next_lease_epoch(server):
    server.streams.put([SESSION, record_line(1)])
    with consumer_of(server) as consumer:
        records = iter(consumer)
        next(records)
        server.say(LEASE_LOST)
        redeliver(server, consumer, of_next_epoch(1), of_next_epoch(2))
        assert numbers([next(records)]) == [2]
    assert server.outcomes() == [("next1", "ack")]


def test_redelivered_record_is_extended_with_its_last_batch(server):
    server.streams.put([dict(SESSION, ack_deadline_ms=300), record_line(1)])
    with consumer_of(server) as consumer:
        next(iter(consumer))
        redeliver(server, consumer, second(1))
        count = len(server.items())
        wait_until(lambda: [item["batch_id"] for item in server.items()].count("b2") >= 2, "it is extended")
        later = [item["batch_id"] for item in server.items()][count + 1:]  # One may have been under way.
    assert set(later) == {"b2"}
