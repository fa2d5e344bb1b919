# SPDX-License-Identifier: Apache-2.0
"""A consumer and a server that misbehaves."""

import asyncio
import os
import threading

import pytest
from support import SESSION, record_line, refuse, wait_until

from kinesis_sidecar import Consumer, SessionTakenOver, SidecarError, aio


def consumer_of(server, **options):
    return Consumer("orders", url=server.url, **options)


def numbers(records):
    return [int(record.sequence_number) for record in records]


def take(consumer, count):
    taken = []
    for record in consumer:
        taken.append(record)
        if len(taken) == count:
            return taken
    return taken


def test_whole_batch_is_acknowledged_by_one_item(server):
    server.streams.put([SESSION, record_line(1), record_line(2), record_line(3, batch="b2")])
    with consumer_of(server) as consumer:
        take(consumer, 3)
        wait_until(server.outcomes, "the batch is acknowledged")
        assert server.outcomes() == [("b1", "ack")]
    assert server.deleted == ["/v1/sessions/orders"]


def test_records_of_an_open_batch_are_acknowledged_by_their_own_ids(server):
    server.streams.put([SESSION, record_line(1), record_line(2)])
    with consumer_of(server) as consumer:
        take(consumer, 2)
    assert server.outcomes() == [("a1.1", "ack")]  # The loop was left at the second one.


def test_event_between_the_records_of_a_batch_does_not_end_it(server):
    server.streams.put([SESSION, record_line(1), {"type": "heartbeat", "in_flight": 1}, record_line(2)])
    with consumer_of(server) as consumer:
        take(consumer, 2)
    assert server.outcomes() == [("a1.1", "ack")]


def test_retried_batch_is_retried_from_its_end(server):
    server.streams.put([SESSION, record_line(1), record_line(2)])
    with consumer_of(server) as consumer:
        next(consumer.batches(max_records=2)).retry()
    assert server.outcomes() == [("a2.1", "retry"), ("a1.1", "retry")]


def test_first_outcome_counts(server):
    server.streams.put([SESSION, record_line(1)])
    with consumer_of(server) as consumer:
        record, = take(consumer, 1)
        record.drop()
        record.ack()
        record.retry()
    assert server.outcomes() == [("a1.1", "drop")]


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_refused_stream_raises(server, status):
    server.streams.put(refuse(status, "some-code", "a sentence"))
    with consumer_of(server) as consumer, pytest.raises(SidecarError, match="a sentence") as raised:
        take(consumer, 1)
    assert (raised.value.status, raised.value.code) == (status, "some-code")


@pytest.mark.parametrize("status", [409, 429, 500, 503])
def test_temporary_refusal_is_tried_again(server, status):
    server.streams.put(refuse(status, "aborted", retryable=True))
    server.streams.put([SESSION, record_line(1)])
    events = []
    with consumer_of(server, on_event=events.append) as consumer:
        assert numbers(take(consumer, 1)) == [1]
    assert events[0]["type"] == "disconnected"
    assert str(status) in events[0]["reason"]


def test_retry_after_is_heeded(server):
    server.streams.put(refuse(503, **{"Retry-After": "1"}))
    server.streams.put([SESSION, record_line(1)])
    events = []
    with consumer_of(server, on_event=events.append) as consumer:
        take(consumer, 1)
    assert events[0]["retry_in_ms"] >= 1000


@pytest.mark.parametrize("broken", [b"{not JSON}\n", b"[1]\n", b"x" * 100])
def test_broken_frame_drops_the_connection(server, broken):
    server.streams.put([SESSION, record_line(1), broken, None])
    server.streams.put([SESSION, record_line(1, attempt=2), record_line(2)])
    events = []
    with consumer_of(server, on_event=events.append) as consumer:
        assert numbers(take(consumer, 2)) == [1, 2]
    assert "disconnected" in [event["type"] for event in events]


def test_frame_that_is_too_long_drops_the_connection(server, monkeypatch):
    monkeypatch.setattr("kinesis_sidecar._wire.FRAME_BYTES_MAX", 1000)
    server.streams.put([SESSION, b"x" * 2000])
    server.streams.put([SESSION, record_line(1)])
    events = []
    with consumer_of(server, on_event=events.append) as consumer:
        take(consumer, 1)
    assert "1000" in [event["reason"] for event in events if event["type"] == "disconnected"][0]


def test_unknown_events_and_members_are_passed_on(server):
    server.streams.put([SESSION, {"type": "new", "x": 1}, dict(record_line(1), extra=True)])
    events = []
    with consumer_of(server, on_event=events.append) as consumer:
        take(consumer, 1)
    assert {"type": "new", "x": 1} in events


def test_missed_heartbeats_end_the_connection(server):
    server.streams.put([dict(SESSION, heartbeat_ms=100)])
    server.streams.put([SESSION, record_line(1)])
    events = []
    with consumer_of(server, on_event=events.append) as consumer:
        take(consumer, 1)
    assert "no heartbeat" in [event.get("reason") for event in events]


def test_take_over_raises(server):
    server.streams.put([SESSION, {"type": "ended", "reason": "taken_over"}])
    with consumer_of(server) as consumer, pytest.raises(SessionTakenOver):
        take(consumer, 1)
    assert server.deleted == []


def test_outcome_of_a_running_handler_settles_the_redelivery(server):
    server.streams.put([SESSION, record_line(1)])
    server.streams.put([SESSION, record_line(1, attempt=2, batch="b2"), record_line(2, attempt=1, batch="b2")])
    with consumer_of(server) as consumer:
        records = iter(consumer)
        first = next(records)
        server.say(None)
        second = next(records)
        assert numbers([first, second]) == [1, 2]
        second.ack()
    assert sorted(server.outcomes()) == [("a1.2", "ack"), ("a2.1", "ack")]


def test_outcome_that_was_not_confirmed_settles_the_redelivery(server):
    server.streams.put([SESSION, record_line(1)])
    server.streams.put([SESSION, record_line(1, attempt=2, batch="b2"), record_line(2, batch="b2")])
    server.settle_answers.extend([refuse(503)] * 3)
    with consumer_of(server) as consumer:
        records = iter(consumer)
        next(records).drop()
        wait_until(lambda: server.settles, "the settlement is refused for now")
        server.say(None)
        assert numbers([next(records)]) == [2]
        wait_until(lambda: ("a1.2", "drop") in server.outcomes(), "the redelivery is dropped")


def test_settlements_of_an_ended_session_are_counted(server):
    server.streams.put([SESSION, record_line(1), record_line(2)])
    server.settle_answers.append(refuse(410, "session-expired"))
    with consumer_of(server) as consumer:
        records = iter(consumer)
        next(records)
        next(records)
        wait_until(lambda: consumer.stale == 1, "the settlement is stale")


def test_settlements_that_are_not_answered_are_sent_again(server):
    server.streams.put([SESSION, record_line(1), record_line(2)])
    server.settle_answers.extend([refuse(503), refuse(429), (200, None, {})])
    with consumer_of(server) as consumer:
        take(consumer, 1)[0].ack()
        wait_until(lambda: len(server.settles) >= 3, "it is sent again")
    assert {body["settlements"][0]["ack_id"] for body, _ in server.settles} == {"a1.1"}


def test_refused_items_are_reported(server):
    failure = {"ack_id": "a1.1", "reason": "EXPIRED", "message": "too late"}
    server.streams.put([SESSION, record_line(1)])
    server.settle_answers.append((200, {"ok": 0, "failed": [failure], "persisted": False, "positions": []}, {}))
    events = []
    with consumer_of(server, on_event=events.append) as consumer:
        take(consumer, 1)[0].drop()
        wait_until(lambda: consumer.failed == 1, "the refusal is counted")
    assert dict(failure, type="settle_failed") in events


def test_refused_settle_request_raises(server):
    server.streams.put([SESSION, record_line(1)])
    server.settle_answers.append(refuse(401, "unauthenticated", "the token is wrong"))
    with consumer_of(server) as consumer, pytest.raises(SidecarError, match="the token is wrong"):
        for record in consumer:
            record.drop()


def test_refused_outcome_takes_no_acknowledgement_along(server):
    server.streams.put([SESSION, record_line(1), record_line(2)])
    server.settle_answers.append(refuse(400, "failed-precondition", "there are no dead letters"))
    with consumer_of(server, ack_interval=60.0) as consumer, pytest.raises(SidecarError, match="no dead letters"):
        for record in consumer:
            if record.sequence_number == "2":
                record.dead_letter()
    assert server.outcomes() == [("a2.1", "dead_letter"), ("a1.1", "ack")]


def test_token_file_is_read_for_each_request(server, tmp_path):
    path = tmp_path / "token"
    path.write_text("first\n")
    server.streams.put([SESSION, record_line(1), record_line(2)])
    with consumer_of(server, token_file=str(path)) as consumer:
        take(consumer, 1)
        path.write_text("second\n")
        next(iter(consumer)).drop()
        wait_until(lambda: server.settles, "the record is settled")
    assert server.opened[0][1]["Authorization"] == "Bearer first"
    assert server.settles[0][1]["Authorization"] == "Bearer second"


def retried_while_others_wait(server, accepted):
    """Records 1 to 3 are in one batch. The first one is retried before the others were handed out."""
    server.streams.put([SESSION, record_line(1), record_line(2), record_line(3)])
    if not accepted:
        failure = {"ack_id": "a1.1", "reason": "EXPIRED", "message": "too late"}
        server.settle_answers.append((200, {"ok": 0, "failed": [failure], "persisted": False, "positions": []}, {}))
    with consumer_of(server) as consumer:
        records = iter(consumer)
        next(records).retry(reason="not yet")
        wait_until(lambda: server.settles, "the retry is sent")
        for number in (1, 2, 3) if accepted else ():
            server.say(record_line(number, attempt=2, batch="b2"))
        return [(int(record.sequence_number), record.attempt) for _, record in zip(range(3 if accepted else 2), records)]


def test_records_behind_a_retry_are_handed_out_behind_its_redelivery(server):
    assert retried_while_others_wait(server, accepted=True) == [(1, 2), (2, 2), (3, 2)]
    assert server.settles[0][0] == {"settlements": [{"ack_id": "a1.1", "outcome": "retry", "reason": "not yet"}], "barrier": "1"}


def test_records_behind_a_refused_retry_are_handed_out(server):
    assert retried_while_others_wait(server, accepted=False) == [(2, 1), (3, 1)]


def test_retry_that_was_not_confirmed_holds_its_lane_in_the_next_session(server):
    server.streams.put([SESSION, dict(record_line(1), lane=3)])
    server.settle_answers.extend([refuse(503)] * 1000)
    handled = []

    def handler(record):
        handled.append((int(record.sequence_number), record.attempt))
        if record.attempt < 3 and record.sequence_number == "1":
            raise RuntimeError("not yet")
    with consumer_of(server) as consumer:
        thread = threading.Thread(target=consumer.run, args=(handler, 4), kwargs={"signals": False})
        thread.start()
        wait_until(lambda: server.settles, "the retry is refused for now")
        server.streams.put([SESSION, dict(record_line(1, attempt=2, batch="b2"), lane=3), dict(record_line(2, batch="b2"), lane=3)])
        server.say(None)
        wait_until(lambda: len(server.opened) == 2, "a new session")
        server.settle_answers.clear()
        wait_until(lambda: consumer._engine.barriers_seen == 1, "the redelivery is retried")
        server.say(dict(record_line(1, attempt=3, batch="b3"), lane=3))
        server.say(dict(record_line(2, attempt=2, batch="b3"), lane=3))
        wait_until(lambda: len(handled) == 3, "all are handled")
        consumer.stop()
        thread.join()
    assert handled == [(1, 1), (1, 3), (2, 2)]


def test_other_shards_go_on_while_a_retry_waits(server):
    server.streams.put([SESSION, record_line(1), record_line(2, batch="b2", shard="other")])
    server.settle_answers.append(refuse(503))
    with consumer_of(server) as consumer:
        records = iter(consumer)
        next(records).retry()
        assert next(records).shard_id == "other"


def test_lost_lease_takes_its_records(server):
    server.streams.put([SESSION, record_line(1), record_line(2), record_line(3, batch="b2", shard="other")])
    seen = threading.Event()
    with consumer_of(server, on_event=lambda event: event["type"] == "lease_lost" and seen.set()) as consumer:
        records = iter(consumer)
        assert next(records).sequence_number == "1"
        server.say({"type": "lease_lost", "shard_id": "shardId-000000000000"})
        assert seen.wait(60)
        assert next(records).shard_id == "other"


def test_what_the_app_has_is_extended(server):
    server.streams.put([dict(SESSION, ack_deadline_ms=300), record_line(1), record_line(2)])
    with consumer_of(server) as consumer:
        take(consumer, 1)
        wait_until(lambda: len([item for item in server.items() if item["outcome"] == "extend"]) >= 2, "it is extended")
    assert {"batch_id": "b1", "outcome": "extend", "delay_ms": 300} in server.items()


def test_extension_ends_with_max_processing(server):
    server.streams.put([dict(SESSION, ack_deadline_ms=150), record_line(1)])
    with consumer_of(server, max_processing=0.4) as consumer:
        take(consumer, 1)
        wait_until(lambda: consumer._engine.extend_at > consumer._engine.group.since + 1.0, "it was due several times")
    assert 0 < len([item for item in server.items() if item["outcome"] == "extend"]) <= 20


def test_reason_is_text_that_the_sidecar_takes(server):
    server.streams.put([SESSION, record_line(1)])
    with consumer_of(server) as consumer:
        take(consumer, 1)[0].dead_letter("\0" + "\udc00" + "x" * 1000)
    reason = server.items()[0]["reason"]
    assert len(reason) == 500 and "\0" not in reason and "\udc00" not in reason


def test_data_that_is_not_json_is_a_failure_of_the_handler(server):
    server.streams.put([SESSION, record_line(1, data=b"{")])
    with consumer_of(server) as consumer:
        thread = threading.Thread(target=consumer.run, args=(lambda record: record.json(),), kwargs={"signals": False})
        thread.start()
        wait_until(server.outcomes, "the record is retried")
        consumer.stop()
        thread.join()
    assert server.outcomes() == [("a1.1", "retry")]
    assert server.items()[0]["reason"].startswith("JSONDecodeError")


def test_child_of_a_fork_is_refused(server):
    server.streams.put([SESSION, record_line(1)])
    with consumer_of(server) as consumer:
        take(consumer, 1)
        pid = os.fork()
        if pid == 0:
            try:
                take(consumer, 1)
            except SidecarError as err:
                os._exit(7 if "fork" in str(err) else 1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


@pytest.mark.parametrize("url", ["ftp://x", "http://", "unix:relative", "http://127.0.0.1:1/path"])
def test_bad_address_is_refused(url):
    with pytest.raises(ValueError, match="http://HOST:PORT|absolute"):
        Consumer("orders", url=url)


@pytest.mark.parametrize("client_id", ["", "a b", "x" * 65])
def test_bad_client_id_is_refused(client_id):
    with pytest.raises(ValueError, match="client_id must be"):
        Consumer(client_id)


# --- asyncio ---

def aio_take(server, count, **options):
    async def run():
        taken = []
        async with aio.Consumer("orders", url=server.url, **options) as consumer:
            async for record in consumer:
                taken.append(record)
                if len(taken) == count:
                    return taken
    return asyncio.run(asyncio.wait_for(run(), 60))


def test_aio_reconnects_and_acknowledges(server):
    server.streams.put(refuse(503))
    server.streams.put([SESSION, record_line(1), record_line(2), record_line(3)])
    events = []
    assert numbers(aio_take(server, 3, on_event=events.append)) == [1, 2, 3]
    assert events[0]["type"] == "disconnected"
    assert sorted(server.outcomes()) == [("a1.1", "ack"), ("a2.1", "ack")]
    assert server.deleted == ["/v1/sessions/orders"]


def test_aio_refused_stream_raises(server):
    server.streams.put(refuse(401, detail="a sentence"))
    with pytest.raises(SidecarError, match="a sentence"):
        aio_take(server, 1)


def test_aio_take_over_raises(server):
    server.streams.put([SESSION, {"type": "ended", "reason": "taken_over"}])
    with pytest.raises(SessionTakenOver):
        aio_take(server, 1)


def test_aio_missed_heartbeats_end_the_connection(server):
    server.streams.put([dict(SESSION, heartbeat_ms=100)])
    server.streams.put([SESSION, record_line(1)])
    assert numbers(aio_take(server, 1)) == [1]


def test_aio_cancelled_run_waits_for_its_handlers(server):
    server.streams.put([SESSION, record_line(1), record_line(2, batch="b2")])

    async def run():
        begun, release = asyncio.Event(), asyncio.Event()

        async def handler(record):
            begun.set()
            await release.wait()

        consumer = aio.Consumer("orders", url=server.url)
        task = asyncio.create_task(consumer.run(handler))
        await begun.wait()
        task.cancel()
        await asyncio.sleep(0)
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await task
    asyncio.run(asyncio.wait_for(run(), 60))
    assert server.outcomes() == [("b1", "ack")] or server.outcomes() == [("a1.1", "ack")]
    assert server.deleted == ["/v1/sessions/orders"]
