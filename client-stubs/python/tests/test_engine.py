# SPDX-License-Identifier: Apache-2.0
"""The engine alone: many redeliveries, and what they cost."""

import collections

from support import SESSION, record_line

from kinesis_sidecar._engine import Engine
from kinesis_sidecar._options import Options
from kinesis_sidecar._record import JsonRecord


class CountedRecord(JsonRecord):
    """Counts how often an identity or a position is computed."""

    __slots__ = ()
    identities = positions = 0

    @property
    def identity(self):
        CountedRecord.identities += 1
        return super().identity

    @property
    def position(self):
        CountedRecord.positions += 1
        return super().position


class App:
    """An engine, and the records that it hands out."""

    def __init__(self, **session):
        self.handed_out = collections.deque()
        self.engine = Engine(Options("orders"), CountedRecord, self.handed_out.append, lambda event: None, lambda: None,
                             lambda record: None, None)
        self.engine.receive([(None, dict(SESSION, **session), 0)], 0.0)

    def deliver(self, number, attempt=1):
        """Delivers a batch of one record. Returns what the app may begin of it."""
        return self.deliver_batch(f"b{number}.{attempt}", (number, attempt))

    def deliver_batch(self, batch_id, *records, at=0.0):
        self.receive(batch_id, *records, at=at)
        return self.begin()

    def receive(self, batch_id, *records, at=0.0):
        """The records wait."""
        lines = [(batch_id, record_line(number, attempt, batch_id), 100) for number, attempt in records]
        self.engine.receive(lines, at)

    def begin(self):
        return [record for item in self._items() for record in self.engine.begin(item)]

    def begin_again(self, records):
        """A loop was left that had the records. Returns what the next loop begins."""
        again = self.engine.give_back(records)
        return [(int(record.sequence_number), record.attempt) for record in [*self.engine.begin(again), *self.begin()]]

    def extended(self, at):
        """Returns the ids that are extended."""
        request = self.engine.request(at)
        if request is None:
            return []
        self.engine.answered(request, {"failed": []})
        return [item.get("ack_id") or item["batch_id"] for item in request.body["settlements"]]

    def _items(self):
        while self.handed_out:
            yield self.handed_out.popleft()


def test_redelivery_costs_the_same_however_many_records_the_app_has():
    app = App()
    for number in range(1000):
        app.deliver(number)
    CountedRecord.identities = 0
    for attempt in (2, 3):
        for number in range(1000):
            assert app.deliver(number, attempt) == []
    assert CountedRecord.identities < 10 * 2000


def test_redelivery_of_records_that_the_app_never_had_costs_the_same():
    app = App()
    for number in range(1000):
        app.deliver(number)
    CountedRecord.identities = 0
    for number in range(1000, 3000):
        assert len(app.deliver(number, 2)) == 1
    assert CountedRecord.identities < 10 * 2000


def test_redelivery_of_records_that_wait_costs_the_same():
    app = App()
    for number in range(1000):
        app.receive(f"b{number}", (number, 1))
    CountedRecord.identities = CountedRecord.positions = 0
    for attempt in (2, 3):
        for number in range(1000):
            app.receive(f"b{number}.{attempt}", (number, attempt))
    assert CountedRecord.identities < 10 * 2000
    assert CountedRecord.positions < 10 * 2000
    assert [(int(record.sequence_number), record.attempt) for record in app.begin()] == [(number, 3) for number in range(1000)]


def test_record_is_found_after_many_others_were_delivered():
    app = App(max_in_flight=10)
    app.deliver(1)
    assert app.deliver(1, 2) == []
    for number in range(2, 100):
        for record in app.deliver(number):
            record.ack()
    assert app.deliver(1, 3) == []


def test_records_that_are_settled_are_not_kept_in_memory():
    app = App(max_in_flight=10, max_in_flight_bytes=10_000)
    for number in range(1000):
        for record in app.deliver(number, 2):
            record.ack()
        request = app.engine.request(0.0, everything=True)
        app.engine.answered(request, {"failed": []})
    assert len(app.engine.earlier.records if app.engine.earlier else ()) < 20


def test_record_of_a_confirmed_outcome_is_handed_out_again():
    app = App()
    app.deliver(1)[0].ack()
    app.deliver(2, 2)  # From here on earlier records are known.
    app.engine.answered(app.engine.request(0.0, everything=True), {"failed": []})
    assert [record.attempt for record in app.deliver(1, 2)] == [2]


def test_redelivery_does_not_begin_max_processing_again():
    app = App()
    app.deliver(1)
    assert app.extended(at=3599.0) == ["b1.1"]
    app.deliver_batch("b2", (1, 2), at=3599.0)
    app.deliver_batch("b3", (1, 3), at=3601.0)
    assert app.extended(at=3700.0) == []


def test_record_whose_time_is_over_is_not_extended_with_its_batch():
    app = App()
    app.deliver(1)
    app.deliver_batch("b2", (1, 2), (2, 1), (3, 1), (4, 1), at=3500.0)[2].drop()
    app.engine.answered(app.engine.request(3500.0), {"failed": []})
    assert app.extended(at=3590.0) == ["b2"]
    app.deliver_batch("b3", (3, 2), at=3590.0)
    assert app.extended(at=3700.0) == ["a2.1", "b3"]


# --- Records of a loop that was left ---

def test_redelivery_replaces_records_that_were_given_back():
    app = App()
    given = app.engine.give_back(app.deliver_batch("b1", (1, 1), (2, 1), (3, 1)))
    app.receive("b2", (2, 2))
    app.receive("b3", (3, 2))
    assert app.begin_again(given) == [(1, 1), (2, 2), (3, 2)]


def test_redelivery_replaces_a_redelivered_record_that_was_given_back():
    app = App()
    had = app.deliver(1)
    app.receive("b2", (1, 2))
    assert app.engine.give_back(had) == []
    app.receive("b3", (1, 3))
    assert app.begin_again(had) == [(1, 3)]
    assert app.engine.request(0.0) is None


def test_records_given_back_wait_for_their_redelivery_after_that_of_an_earlier_one():
    app = App()
    had = app.deliver_batch("b1", (1, 1), (2, 1), (3, 1))
    app.receive("b2", (1, 2))
    assert app.begin_again(had) == [(1, 1)]
    assert app.deliver_batch("b3", (2, 2), (3, 2)) == had[1:]


def test_record_given_back_after_an_accepted_retry_waits_for_its_redelivery():
    app = App()
    first, second = app.deliver_batch("b1", (1, 1), (2, 1))
    first.retry()
    app.extended(at=0.0)
    app.engine.receive([(None, {"type": "barrier", "barrier": "1"}, 0)], 0.0)
    assert app.begin_again([first, second]) == []
    assert [record.settle_id for record in app.deliver_batch("b2", (1, 2), (2, 2))] == ["a1.2", "a2.2"]


def test_record_given_back_may_be_settled_before_its_redelivery():
    app = App()
    had = app.deliver_batch("b1", (1, 1), (2, 1))
    app.receive("b2", (1, 2))
    assert app.begin_again(had) == [(1, 1)]
    had[1].ack()
    assert app.deliver_batch("b3", (2, 2)) == []
    assert [item["ack_id"] for item in app.engine.request(0.0, everything=True).body["settlements"]] == ["a2.2"]
