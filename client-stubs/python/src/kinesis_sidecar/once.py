# SPDX-License-Identifier: Apache-2.0
"""Effects at most once per record, in a database of the app: SQLite 3.24, PostgreSQL 9.5, or later ones.

    with psycopg.connect(..) as connection:
        create_table(connection)
        consumer.run(lambda record: apply_once(connection, "orders", record, insert_order))

The sidecar delivers at least once. `apply_once` stores the position of the record in the transaction of its effect: a
redelivery finds it there and has no effect. Works with any ordering and concurrency, one connection for each handler."""

from __future__ import annotations

import sys
from typing import Any, Callable

from ._record import Record

TABLE = "kinesis_sidecar_applied"


def create_table(connection: Any) -> None:
    """Creates the table of positions if it does not exist, and commits."""
    connection.cursor().execute(
        f"CREATE TABLE IF NOT EXISTS {TABLE} (consumer TEXT NOT NULL, stream TEXT NOT NULL, shard_id TEXT NOT NULL,"
        " sequence_number TEXT NOT NULL, sub_sequence_number BIGINT NOT NULL, epoch BIGINT NOT NULL,"
        " applied_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,"
        " PRIMARY KEY (consumer, stream, shard_id, sequence_number, sub_sequence_number))")
    connection.commit()


def apply_once(connection: Any, consumer: str, record: Record, effect: Callable[[Any, Record], Any]) -> bool:
    """Calls `effect(cursor, record)` and commits, or does nothing if the record was applied before. Returns whether it was called.
    Rolls back if the effect raises. The connection must not be in autocommit mode."""
    cursor = connection.cursor()
    try:
        cursor.execute(_insert(connection), (consumer, record.stream, record.shard_id, record.sequence_number,
                                             record.sub_sequence_number, record.epoch))
        is_new: bool = cursor.rowcount == 1
        if is_new:
            effect(cursor, record)
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
    return is_new


def forget_before(connection: Any, consumer: str, instant: Any) -> int:
    """Removes positions that were stored before `instant`, and commits. Returns how many. Records that can be redelivered must
    be younger: the retention period of the stream is a safe age."""
    mark = _placeholder(connection)
    cursor = connection.cursor()
    cursor.execute(f"DELETE FROM {TABLE} WHERE consumer = {mark} AND applied_at < {mark}", (consumer, instant))
    connection.commit()
    return int(cursor.rowcount)


def _insert(connection: Any) -> str:
    marks = ", ".join([_placeholder(connection)] * 6)
    return (f"INSERT INTO {TABLE} (consumer, stream, shard_id, sequence_number, sub_sequence_number, epoch) VALUES ({marks})"
            " ON CONFLICT DO NOTHING")


def _placeholder(connection: Any) -> str:
    """By the module of the connection, as DB-API 2.0 (PEP 249) has it."""
    module = sys.modules[type(connection).__module__.split(".")[0]]
    return "?" if getattr(module, "paramstyle", "") == "qmark" else "%s"
