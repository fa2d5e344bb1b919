# SPDX-License-Identifier: Apache-2.0
import asyncio

import pytest

from kinesis_sidecar.testing import AsyncFakeConsumer, FakeConsumer, make_record


def outcomes(consumer):
    return [(record.json(), record.attempt, outcome, reason) for record, outcome, reason in consumer.outcomes]


def handler(record):
    if record.json() == 1 and record.attempt == 1:
        raise ValueError("odd")
    if record.json() == 2:
        record.dead_letter("even")


EXPECTED = [(1, 1, "retry", "ValueError: odd"), (1, 2, "ack", ""), (2, 1, "dead_letter", "even")]


def test_run_reports_outcomes():
    consumer = FakeConsumer([make_record(1), make_record(2)])
    consumer.run(handler)
    assert outcomes(consumer) == EXPECTED


def test_record_that_always_fails_becomes_a_dead_letter():
    consumer = FakeConsumer([make_record(b"{")], max_attempts=2)
    consumer.run(lambda record: record.json())
    assert [outcome for _, outcome, _ in consumer.outcomes] == ["retry", "dead_letter"]


def test_loop_that_is_left_settles_nothing():
    consumer = FakeConsumer([make_record(1), make_record(2)])
    for record in consumer:
        if record.json() == 2:
            break
    assert outcomes(consumer) == [(1, 1, "ack", "")]


def test_record_of_a_loop_that_was_left_is_handed_out_by_the_next_loop():
    consumer = FakeConsumer([make_record(1), make_record(2), make_record(3)])
    for _ in consumer:
        break
    for batch in consumer.batches(max_records=2):
        batch.records[0].drop()
        break
    assert [record.json() for record in consumer] == [2, 3]
    assert [outcome for _, outcome, _ in consumer.outcomes] == ["drop", "ack", "ack"]


@pytest.mark.parametrize("size", [1, 2, 500])
def test_batches(size):
    consumer = FakeConsumer([make_record(number) for number in range(5)])
    sizes = [len(batch) for batch in consumer.batches(max_records=size)]
    assert sum(sizes) == 5 and max(sizes) <= size
    assert len(consumer.outcomes) == 5


def test_async_run_reports_outcomes():
    async def run():
        async def wrapped(record):
            handler(record)
        consumer = AsyncFakeConsumer([make_record(1), make_record(2)])
        await consumer.run(wrapped)
        return outcomes(consumer)
    assert asyncio.run(run()) == EXPECTED


def test_async_iteration_and_persisted_ack():
    async def run():
        async with AsyncFakeConsumer([make_record(1)]) as consumer:
            async for record in consumer:
                assert await record.ack(persisted=True)
        return outcomes(consumer)
    assert asyncio.run(run()) == [(1, 1, "ack", "")]
