# SPDX-License-Identifier: Apache-2.0
import datetime
import sqlite3

import pytest

from kinesis_sidecar.once import apply_once, create_table, forget_before
from kinesis_sidecar.testing import make_record


@pytest.fixture
def connection():
    connection = sqlite3.connect(":memory:")
    create_table(connection)
    connection.execute("CREATE TABLE orders (id INTEGER)")
    return connection


def insert(cursor, record):
    cursor.execute("INSERT INTO orders VALUES (?)", (record.json(),))


def orders(connection):
    return [row[0] for row in connection.execute("SELECT id FROM orders ORDER BY id")]


def test_redelivery_has_no_effect(connection):
    first = make_record(7, sequence_number="100")
    again = make_record(7, sequence_number="100", attempt=2, epoch=2)
    assert apply_once(connection, "orders", first, insert)
    assert not apply_once(connection, "orders", again, insert)
    assert orders(connection) == [7]


def test_records_of_an_aggregate_are_told_apart(connection):
    for sub in (0, 1):
        assert apply_once(connection, "orders", make_record(sub, sequence_number="100", sub_sequence_number=sub), insert)
    assert orders(connection) == [0, 1]


def test_failed_effect_leaves_no_position(connection):
    def fail(cursor, record):
        insert(cursor, record)
        raise RuntimeError
    record = make_record(7)
    with pytest.raises(RuntimeError):
        apply_once(connection, "orders", record, fail)
    assert orders(connection) == []
    assert apply_once(connection, "orders", record, insert)


def test_old_positions_are_forgotten(connection):
    apply_once(connection, "orders", make_record(7), insert)
    now = datetime.datetime.now(datetime.timezone.utc)
    stamp = "%Y-%m-%d %H:%M:%S"
    assert forget_before(connection, "orders", (now - datetime.timedelta(days=1)).strftime(stamp)) == 0
    assert forget_before(connection, "orders", (now + datetime.timedelta(days=1)).strftime(stamp)) == 1
