# SPDX-License-Identifier: Apache-2.0
"""A consumer and a server that misbehaves."""

import asyncio
import json
import os
import threading
import time
import urllib.parse

import pytest
from support import SESSION, consumer_of, handed_out, numbers, record_line, refuse, wait_until

from kinesis_sidecar import Consumer, SessionTakenOver, SidecarError, aio
from kinesis_sidecar._base import Stream
from kinesis_sidecar._wire import ProtobufDecoder


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


def test_batch_with_another_outcome_is_acknowledged_one_by_one(server):
    server.streams.put([SESSION, record_line(1), record_line(2), record_line(3, batch="b2")])
    with consumer_of(server) as consumer:
        records = iter(consumer)
        next(records).drop()
        next(records)
        next(records)
    assert sorted(server.outcomes()) == [("a1.1", "drop"), ("a2.1", "ack")]


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


@pytest.mark.parametrize("batch, name", [("b1", "a1.1"), ("b0", "b0")])
def test_acknowledgements_wait_for_others(server, batch, name):
    server.streams.put([SESSION, record_line(1, batch=batch), record_line(2), record_line(3)])
    with consumer_of(server, ack_interval=3600.0) as consumer:
        records = iter(consumer)
        next(records)
        for number in (2, 3):
            next(records).drop()
            wait_until(lambda: (f"a{number}.1", "drop") in server.outcomes(), "the record is dropped")
    assert server.outcomes()[-1] == (name, "ack")


@pytest.mark.parametrize("limit", [{"max_in_flight": 4}, {"max_in_flight_bytes": 1000}])
def test_acknowledgements_leave_when_half_of_a_limit_waits(server, limit):
    server.streams.put([dict(SESSION, **limit), *(record_line(number, batch=f"b{number}") for number in (1, 2, 3))])
    with consumer_of(server, ack_interval=3600.0) as consumer:
        thread = threading.Thread(target=consumer.run, args=(lambda record: None,), kwargs={"signals": False})
        thread.start()
        wait_until(server.outcomes, "acknowledgements have left")
        consumer.stop()
        thread.join()


def test_request_has_at_most_1000_items(server):
    server.streams.put([dict(SESSION, max_in_flight=10000), *map(record_line, range(1, 1003))])
    with consumer_of(server, ack_interval=3600.0) as consumer:
        take(consumer, 1002)
    assert sorted(len(body["settlements"]) for body, _ in server.settles) == [1, 1000]


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
    server.settle_answers.extend([refuse(503)] * 1000)  # A confirmed record would not be redelivered.
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


def test_protobuf_frame_that_is_too_long_is_refused():
    with pytest.raises(ValueError, match="more than 33554432 bytes"):
        list(ProtobufDecoder().feed(b"\xff\xff\xff\xff\x0f"))


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


def test_lost_connection_takes_the_records_that_wait(server):
    server.streams.put([SESSION, record_line(1), record_line(2)])
    lost = threading.Event()
    with consumer_of(server, on_event=lambda event: event["type"] == "disconnected" and lost.set()) as consumer:
        records = iter(consumer)
        next(records)
        server.say(None)
        assert lost.wait(60)
        server.streams.put([SESSION, record_line(2, attempt=2, batch="b2")])
        assert next(records).attempt == 2


def test_outcome_of_a_running_handler_settles_the_redelivery(server):
    server.streams.put([SESSION, record_line(1)])
    server.streams.put([SESSION, record_line(1, attempt=2, batch="b2"), record_line(2, attempt=1, batch="b2")])
    with consumer_of(server, ack_interval=30) as consumer:  # Nothing is sent before the redelivery.
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


@pytest.mark.parametrize("outcome", ["ack", "drop"])
@pytest.mark.parametrize("between", [[SESSION, record_line(1, attempt=2, batch="b2")], [SESSION]],
                         ids=["redelivered", "silent"])
def test_outcome_that_two_sessions_did_not_confirm_settles_the_redelivery(server, between, outcome):
    server.streams.put([SESSION, record_line(1)])
    server.settle_answers.extend([refuse(503)] * 1000)
    with consumer_of(server) as consumer:
        records = iter(consumer)
        getattr(next(records), outcome)()
        wait_until(lambda: server.settles, "the settlement is refused for now")
        server.streams.put(between)
        server.say(None)
        wait_until(lambda: len(server.live) == 2, "the second session")
        if len(between) > 1:
            wait_until(lambda: ("a1.2", outcome) in server.outcomes(), "the redelivery is settled, without an answer")
        server.streams.put([SESSION, record_line(1, attempt=3, batch="b3"), record_line(2, batch="b3")])
        server.say(None)
        wait_until(lambda: len(server.live) == 3, "the third session")
        server.settle_answers.clear()
        assert numbers([next(records)]) == [2]
        wait_until(lambda: ("a1.3", outcome) in server.outcomes(), "the second redelivery is settled")


def test_record_that_is_decided_in_a_silent_session_is_settled_in_the_next(server):
    server.streams.put([SESSION, record_line(1)])
    with consumer_of(server) as consumer:
        records = iter(consumer)
        first = next(records)
        server.streams.put([SESSION])
        server.say(None)
        wait_until(lambda: len(server.live) == 2, "the second session")
        first.drop()
        server.streams.put([SESSION, record_line(1, attempt=2, batch="b2"), record_line(2, batch="b2")])
        server.say(None)
        assert numbers([next(records)]) == [2]
        wait_until(lambda: ("a1.2", "drop") in server.outcomes(), "the redelivery is settled")
        assert consumer.stale == 0


def test_redriven_record_is_handed_out_though_its_first_outcome_was_not_confirmed(server):
    server.streams.put([SESSION, record_line(1)])
    server.streams.put([SESSION, dict(record_line(1, batch="b2"), redriven=True)])
    server.settle_answers.extend([refuse(503)] * 1000)
    with consumer_of(server) as consumer:
        records = iter(consumer)
        next(records).dead_letter()
        wait_until(lambda: server.settles, "the settlement is refused for now")
        server.say(None)
        assert next(records).redriven


def test_outcome_is_forgotten_if_the_sidecar_goes_on_without_its_record(server):
    server.streams.put([SESSION, record_line(1)])
    server.settle_answers.extend([refuse(503)] * 1000)
    with consumer_of(server) as consumer:
        records = iter(consumer)
        next(records).drop()
        wait_until(lambda: server.settles, "the settlement is refused for now")
        server.streams.put([SESSION, record_line(2, batch="b2")])
        server.say(None)
        next(records).drop()
        assert len(consumer._engine.adoptable) == 1
        server.streams.put([SESSION, record_line(3, batch="b3")])
        server.say(None)
        next(records)
        assert [record.sequence_number for record in consumer._engine.adoptable.values()] == ["2"]


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


def test_retry_after_of_a_settle_request_is_heeded(server):
    server.streams.put([SESSION, record_line(1)])
    server.settle_answers.append(refuse(503, **{"Retry-After": "30"}))
    with consumer_of(server) as consumer:
        take(consumer, 1)[0].drop()
        wait_until(lambda: consumer._engine.retry_at, "it is refused for now")
        assert consumer._engine.retry_at - time.monotonic() > 10


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
        failure = {"ack_id": "a1.1", "reason": "MALFORMED", "message": "not an id that was given out"}
        server.settle_answers.append((200, {"ok": 0, "failed": [failure], "persisted": False, "positions": []}, {}))
    with consumer_of(server) as consumer:
        records = iter(consumer)
        next(records).retry(delay=0.01, reason="not yet")
        wait_until(lambda: server.settles, "the retry is sent")
        for number in (1, 2, 3) if accepted else ():
            server.say(record_line(number, attempt=2, batch="b2"))
        return handed_out(records, 3 if accepted else 2)


def test_records_behind_a_retry_are_handed_out_behind_its_redelivery(server):
    assert retried_while_others_wait(server, accepted=True) == [(1, 2), (2, 2), (3, 2)]
    item = {"ack_id": "a1.1", "outcome": "retry", "delay_ms": 10, "reason": "not yet"}
    assert server.settles[0][0] == {"settlements": [item], "barrier": "1"}


def test_records_behind_a_refused_retry_are_handed_out(server):
    assert retried_while_others_wait(server, accepted=False) == [(2, 1), (3, 1)]


def test_accepted_retry_waits_for_its_barrier(server):
    server.says_barriers = False
    server.streams.put([SESSION, record_line(1), record_line(2)])
    with consumer_of(server) as consumer:
        records = iter(consumer)
        next(records).retry()
        wait_until(lambda: server.settles and all(holds[0].accepted for holds in list(consumer._engine.held.values())),
                   "the retry is accepted")
        for line in (record_line(3), {"type": "barrier", "barrier": "1"}):
            server.say(line)
        for number in (1, 2, 3):
            server.say(record_line(number, attempt=2, batch="b2"))
        assert handed_out(records, 3) == [(1, 2), (2, 2), (3, 2)]


def test_retry_without_an_answer_holds_though_its_barrier_is_there(server):
    server.says_barriers = False
    server.streams.put([SESSION, record_line(1), record_line(2)])
    server.settle_answers.extend([refuse(503)] * 1000)
    with consumer_of(server) as consumer:
        records = iter(consumer)
        next(records).retry()
        wait_until(lambda: server.settles, "the retry is sent")
        server.say({"type": "barrier", "barrier": "1"})
        for number in (1, 2):
            server.say(record_line(number, attempt=2, batch="b2"))
        wait_until(lambda: consumer._engine.group.batch_id == "b2" and consumer._engine.group.count == 2, "redelivery")
        server.settle_answers.clear()
        assert handed_out(records, 2) == [(1, 2), (2, 2)]


def test_retry_takes_back_what_is_later_by_number(server):
    server.streams.put([SESSION, record_line(9), record_line(10)])
    with consumer_of(server) as consumer:
        records = iter(consumer)
        next(records).retry()
        wait_until(lambda: server.settles, "the retry is sent")
        for number in (9, 10):
            server.say(record_line(number, attempt=2, batch="b2"))
        assert handed_out(records, 2) == [(9, 2), (10, 2)]


def test_retry_takes_no_earlier_redelivery_back(server):
    server.streams.put([SESSION, record_line(1), record_line(2)])
    with consumer_of(server) as consumer:
        batches = consumer.batches(max_records=2, max_wait=60.0)
        first, second = next(batches)
        first.retry()
        wait_until(lambda: consumer._engine.barriers_seen == 1, "the first one is retried")
        server.say(record_line(1, attempt=2, batch="b2"))
        wait_until(lambda: consumer._engine.group.batch_id == "b2", "the redelivery is there")
        second.retry()
        wait_until(lambda: consumer._engine.barriers_seen == 2, "the second one is retried")
        server.say(record_line(2, attempt=2, batch="b2"))
        assert handed_out(iter(next(batches)), 2) == [(1, 2), (2, 2)]


@pytest.mark.parametrize("ordering, redriven", [("none", False), ("shard", True)])
def test_retry_without_an_order_holds_nothing(server, ordering, redriven):
    server.streams.put([SESSION, dict(record_line(1), redriven=redriven), record_line(2)])
    server.settle_answers.extend([refuse(503)] * 1000)
    with consumer_of(server, ordering=ordering) as consumer:
        records = iter(consumer)
        next(records).retry()
        assert handed_out(records, 1) == [(2, 1)]


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
        counts = []
        for seconds in (0.7, 1.4):
            wait_until(lambda: consumer._engine.extend_at > consumer._engine.group.since + seconds, "it was due")
            counts.append(len([item for item in server.items() if item["outcome"] == "extend"]))
    assert counts[0] == counts[1] > 0


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


@pytest.mark.parametrize("options, wanted", [
    ({"share": "0.05", "salt": "v2"}, {"share": "0.05", "salt": "v2", "ordering": "key", "lanes": "64"}),
    ({"share": "0.5", "ordering": "key", "lanes": 8}, {"share": "0.5", "ordering": "key", "lanes": "8"}),
    ({"filter": '{"data":{"a":[1]}}'}, {"filter": '{"data":{"a":[1]}}', "ordering": "shard"}),
    ({"filter": {"data": {"a": ["\u00e4"]}}}, {"filter": '{"data":{"a":["\\u00e4"]}}', "ordering": "shard"}),
    ({}, {"ordering": "shard"}),
])
def test_stream_is_asked_for_the_records_that_the_consumer_wants(server, options, wanted):
    server.streams.put([SESSION, record_line(1)])
    with consumer_of(server, **options) as consumer:
        take(consumer, 1)
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(server.opened[0][0]).query))
    names = ("share", "salt", "filter", "ordering", "lanes")
    assert {name: query[name] for name in names if name in query} == wanted


def test_share_that_is_a_number_is_refused():
    with pytest.raises(ValueError, match="share must be a text"):
        Consumer("orders", share=0.05)


@pytest.mark.parametrize("client_id", ["", "a b", "x" * 65])
def test_bad_client_id_is_refused(client_id):
    with pytest.raises(ValueError, match="client_id must be"):
        Consumer(client_id)


def test_event_that_arrives_with_the_end_of_the_stream_counts(server):
    event = json.dumps({"type": "ended", "reason": "taken_over"}).encode() + b"\n"
    content = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(event), event)
    with consumer_of(server) as consumer, pytest.raises(SessionTakenOver):
        Stream(consumer.options).feed(content, consumer._engine, 0.0)


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


def test_aio_failed_handler_retries_its_record(server):
    server.streams.put([SESSION, record_line(1)])

    async def run():
        consumer = aio.Consumer("orders", url=server.url)

        async def handler(record):
            consumer.stop()
            raise RuntimeError("no")
        await consumer.run(handler, signals=False)
    asyncio.run(asyncio.wait_for(run(), 60))
    assert server.items() == [{"ack_id": "a1.1", "outcome": "retry", "reason": "RuntimeError: no"}]


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
