# SPDX-License-Identifier: Apache-2.0
"""The consumers and the real sidecar."""

import asyncio
import collections
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from support import PATIENCE, RealSidecar, wait_until

from kinesis_sidecar import Consumer, SessionTakenOver, aio


@contextlib.contextmanager
def running(sidecar, handler, concurrency=1, **options):
    """`run` in a thread."""
    with Consumer("orders", url=sidecar.url, **options) as consumer:
        errors = []

        def run():
            try:
                consumer.run(handler, concurrency)
            except BaseException as err:
                errors.append(err)
        thread = threading.Thread(target=run)
        thread.start()
        yield consumer
        consumer.stop()
        thread.join()
        assert errors == []


class Handled:
    """Notes what handlers did, by partition key."""

    def __init__(self):
        self.lock = threading.Lock()
        self.by_key = collections.defaultdict(list)
        self.running = collections.Counter()
        self.most = 0

    @contextlib.contextmanager
    def handling(self, record):
        with self.lock:
            self.running[record.partition_key] += 1
            assert self.running[record.partition_key] == 1, "two handlers of one key"
            self.most = max(self.most, sum(self.running.values()))
        try:
            yield
            with self.lock:
                self.by_key[record.partition_key].append(record.json())
        finally:
            with self.lock:
                self.running[record.partition_key] -= 1

    def count(self):
        return sum(map(len, self.by_key.values()))


def test_every_outcome_reaches_the_sidecar(sidecar):
    sidecar.put(["ack", "drop", "dead_letter", "retry"], key=str)
    seen = collections.Counter()

    def handler(record):
        value = record.json()
        seen[value] += 1
        if value == "drop":
            record.drop()
        elif value == "dead_letter":
            record.dead_letter("no way")
        elif value == "retry" and seen[value] < 3:
            record.retry(delay=0.01, reason="not yet")
    with running(sidecar, handler):
        wait_until(lambda: sidecar.settled() == 4, "all are settled")
    letter, = sidecar.call("/v1/dead-letters")["dead_letters"]
    assert letter["reason"] == "no way"
    assert seen == {"ack": 1, "drop": 1, "dead_letter": 1, "retry": 3}


def test_filter_selects_the_records_and_settles_the_others(sidecar):
    seen = []
    with running(sidecar, lambda record: seen.append(record.json()), filter={"partitionKey": ["key-1", "key-7"]}):
        sidecar.put(range(20))
        wait_until(lambda: sidecar.settled() == 20, "all are settled")
    assert sorted(seen) == [1, 7, 11, 17]


@pytest.mark.parametrize("concurrency", [1, 8])
def test_order_of_a_key_is_kept_while_handlers_fail(sidecar, concurrency):
    sidecar.put(list(range(1000)))
    handled, failed = Handled(), set()

    def handler(record):
        with handled.handling(record):
            number = record.json()
            time.sleep(0.0001)
            if number % 37 == 0 and number not in failed:
                failed.add(number)
                raise RuntimeError("fails once")
    with running(sidecar, handler, concurrency):
        wait_until(lambda: handled.count() >= 1000, "all are handled")
        wait_until(lambda: sidecar.settled() == 1000, "all are settled")
    assert len(failed) == 28
    for key, numbers in handled.by_key.items():
        assert numbers == sorted(set(numbers)), key
    assert handled.most <= concurrency


def test_slow_handler_beyond_the_deadline_is_not_repeated(sidecar):
    sidecar.put([1])
    calls = []

    def handler(record):
        calls.append(record.attempt)
        time.sleep(3)
    with running(sidecar, handler, ack_deadline=1.0):
        wait_until(lambda: sidecar.settled() == 1, "it is settled")
    assert calls == [1]


def test_rest_of_a_retried_batch_is_handed_out_once(sidecar):
    sidecar.put([1, 2, 3], key=lambda _: "one")
    with Consumer("orders", url=sidecar.url) as consumer:
        batches = consumer.batches(max_records=3, max_wait=60.0)
        first, *rest = next(batches)
        first.retry(delay=0.01)
        wait_until(lambda: all(record._adopted for record in rest), "the rest is redelivered")
        sidecar.put([4, 5], key=lambda _: "one")
        assert [record.json() for record in next(batches)] == [1, 4, 5]


def test_left_loop_gives_its_record_back(sidecar):
    sidecar.put([1, 2, 3], key=lambda _: "one")
    with Consumer("orders", url=sidecar.url) as consumer:
        for record in consumer:
            if record.json() == 2:
                break
    with Consumer("orders", url=sidecar.url) as consumer:
        records = iter(consumer)
        assert [next(records).json() for _ in range(2)] == [2, 3]


def test_raising_loop_gives_its_record_back(sidecar):
    sidecar.put([1])
    with pytest.raises(RuntimeError), Consumer("orders", url=sidecar.url) as consumer:
        for _ in consumer:
            raise RuntimeError
    with Consumer("orders", url=sidecar.url) as consumer:
        assert next(iter(consumer)).json() == 1


def test_batches_have_a_size_and_a_wait(sidecar):
    sidecar.put(list(range(25)))
    sizes = []
    with Consumer("orders", url=sidecar.url) as consumer:
        for batch in consumer.batches(max_records=10, max_wait=0.2):
            sizes.append(len(batch))
            if sum(sizes) == 25:
                batch.ack()
                break
    assert max(sizes) <= 10
    assert sidecar.settled() == 25


def test_batch_is_retried_but_for_what_has_an_outcome(sidecar):
    sidecar.put([1, 2, 3], key=lambda _: "one")
    with Consumer("orders", url=sidecar.url) as consumer:
        batches = consumer.batches(max_records=3, max_wait=5)
        batch = next(batches)
        batch.records[0].ack()
        batch.retry(reason="again")
        assert [record.json() for record in next(batches)] == [2, 3]


def test_persisted_ack_waits_for_the_checkpoint(sidecar):
    sidecar.put([1])
    with Consumer("orders", url=sidecar.url) as consumer:
        record = next(iter(consumer))
        assert record.ack(persisted=True) is True
        shard = next(shard for shard in sidecar.call("/v1/shards")["shards"] if shard["shard_id"] == record.shard_id)
        assert shard["checkpoint"] == record.sequence_number


def test_record_has_its_members(sidecar):
    sidecar.put([{"a": "ä"}], key=lambda _: "the key")
    with Consumer("orders", url=sidecar.url) as consumer:
        record = next(iter(consumer))
    assert record.json() == {"a": "ä"}
    assert (record.partition_key, record.stream, record.attempt, record.sub_sequence_number) == ("the key", "demo", 1, 0)
    assert record.shard_id.startswith("shardId-")
    assert abs(record.arrived_at.timestamp() - time.time()) < 3600
    assert not record.aggregated and not record.redriven and record.epoch >= 1


def test_kill_of_the_sidecar_repeats_no_record_that_is_handled(sidecar):
    sidecar.put(list(range(200)))
    handled = Handled()
    release = threading.Event()

    def handler(record):
        with handled.handling(record):
            if record.json() == 50:
                release.wait(PATIENCE)
    with running(sidecar, handler, 4):
        wait_until(lambda: handled.running["key-0"] == 1 and handled.count() > 100, "one handler is held up")
        sidecar.kill()
        sidecar.start()
        time.sleep(0.5)
        release.set()
        wait_until(lambda: {number for numbers in handled.by_key.values() for number in numbers} == set(range(200)), "all are handled")
        wait_until(lambda: all(shard["in_flight"] == 0 for shard in sidecar.call("/v1/shards")["shards"]), "all are settled")
    assert handled.by_key["key-0"].count(50) == 1


APP = """
import os, time
from kinesis_sidecar import Consumer
def handler(record):
    os.write(1, b"begin\\n")
    time.sleep(1)
    os.write(1, b"end\\n")
Consumer("orders").run(handler, concurrency=2)
os.write(1, b"closed\\n")
"""


def test_sigterm_waits_for_the_running_handlers(sidecar):
    sidecar.put(list(range(10)))
    env = dict(os.environ, KINESIS_SIDECAR_URL=sidecar.url)
    with subprocess.Popen([sys.executable, "-P", "-c", APP], env=env, stdout=subprocess.PIPE, text=True) as app:
        assert app.stdout.readline() == "begin\n", app.kill()
        app.send_signal(signal.SIGTERM)
        rest = app.stdout.read().split()
        assert app.wait(PATIENCE) == 0
    assert rest.count("begin") + 1 == rest.count("end")
    assert rest[-1] == "closed"
    assert sidecar.settled() == rest.count("end")


def test_second_consumer_with_the_same_client_id_takes_over(sidecar):
    with Consumer("orders", url=sidecar.url) as first, Consumer("orders", url=sidecar.url) as second:
        sidecar.put([1])
        next(iter(first))
        thread = threading.Thread(target=second.run, args=(lambda record: None,))
        thread.start()
        with pytest.raises(SessionTakenOver):
            for _ in first:
                pass
        second.stop()
        thread.join()


def test_unix_socket_and_token(tmp_path):
    token = tmp_path / "token"
    token.write_text("secret\n")
    token.chmod(0o600)
    sidecar = RealSidecar(str(tmp_path), token_file=str(token))
    sidecar.options["listen"] += f",unix:{tmp_path}/api.sock"
    sidecar.start()
    try:
        with Consumer("orders", url=f"unix:{tmp_path}/api.sock", token_file=str(token), max_in_flight=5,
                      on_event=lambda event: opened.append(event)) as consumer:
            opened = []
            threading.Thread(target=consumer.run, args=(lambda record: None,), daemon=True).start()
            wait_until(lambda: opened, "the stream is open")
        assert opened[0]["type"] == "session"
    finally:
        sidecar.kill()


# --- asyncio ---

def test_aio_order_of_a_key_is_kept_while_handlers_fail(sidecar):
    sidecar.put(list(range(1000)))
    handled, failed = Handled(), set()

    async def run():
        consumer = aio.Consumer("orders", url=sidecar.url)

        async def handler(record):
            with handled.handling(record):
                number = record.json()
                await asyncio.sleep(0)
                if number % 37 == 0 and number not in failed:
                    failed.add(number)
                    raise RuntimeError("fails once")
            if handled.count() == 1000:
                consumer.stop()
        await consumer.run(handler, 16)
    asyncio.run(asyncio.wait_for(run(), PATIENCE))
    assert sidecar.settled() == 1000
    for key, numbers in handled.by_key.items():
        assert numbers == sorted(set(numbers)), key


def test_aio_iterates_in_batches_and_waits_for_the_checkpoint(sidecar):
    sidecar.put([1, 2, 3], key=lambda _: "one")

    async def run():
        async with aio.Consumer("orders", url=sidecar.url, ack_deadline=1.0) as consumer:
            async for batch in consumer.batches(max_records=3, max_wait=5):
                first, second, third = batch
                await asyncio.sleep(2.5)
                third.ack()
                return await first.ack(persisted=True), await second.ack()
    assert asyncio.run(asyncio.wait_for(run(), PATIENCE)) == (True, None)
    assert sidecar.settled() == 3
