# SPDX-License-Identifier: Apache-2.0
"""The examples of the README run as they are printed there."""

import asyncio
import os
import pathlib
import re
import runpy
import signal
import sqlite3
import threading

import pytest
from support import SESSION, record_line, wait_until

from kinesis_sidecar.testing import FakeConsumer, make_record

FOLDER = pathlib.Path(__file__).parent.parent
SNIPPETS = {}
for section in re.split(r"^#+ ", (FOLDER / "README.md").read_text(encoding="utf-8"), flags=re.M)[1:]:
    for code in re.findall(r"^```python\n(.*?)^```", section, flags=re.M | re.S):
        SNIPPETS[section.split("\n")[0]] = code


def run(heading, **names):
    exec(compile(SNIPPETS[heading], f"README.md: {heading}", "exec"), names)
    return names


class Consumers:
    """Stands for a consumer: each loop finds two records."""

    def __init__(self):
        self.used = []

    def fake(self):
        self.used.append(FakeConsumer([make_record({"id": number}) for number in (1, 2)]))
        return self.used[-1]

    def run(self, handler):
        self.fake().run(handler)

    def __iter__(self):
        return iter(self.fake())

    def batches(self, max_records, max_wait):
        return self.fake().batches(max_records, max_wait)

    def outcomes(self):
        return [[outcome for _, outcome, _ in consumer.outcomes] for consumer in self.used]


@pytest.fixture
def address(server, monkeypatch):
    """The server has two records. When both are settled the process gets SIGTERM."""
    monkeypatch.setenv("KINESIS_SIDECAR_URL", server.url)
    server.streams.put([SESSION, record_line(1), record_line(2, batch="b2")])

    def terminate():
        wait_until(lambda: len(server.outcomes()) == 2, "both records are settled")
        os.kill(os.getpid(), signal.SIGTERM)
    thread = threading.Thread(target=terminate)
    thread.start()
    yield
    thread.join()
    assert [outcome for _, outcome in server.outcomes()] == ["ack", "ack"]
    assert server.deleted


def test_every_example_is_tested():
    assert list(SNIPPETS) == ["kinesis-sidecar for Python", "Three ways to read", "asyncio", "Effects exactly once",
                              "Tests of an app"]


def test_run(address):
    run("kinesis-sidecar for Python")


def test_loops():
    consumers, handled, inserted = Consumers(), [], []
    run("Three ways to read", consumer=consumers, handle=handled.append, insert_all=inserted.extend)
    assert [record.json()["id"] for record in handled] == [record.json()["id"] for record in inserted] == [1, 2]
    assert consumers.outcomes() == [["ack", "ack"]] * 2


def test_asyncio(address):
    async def handle(record):
        record.json()
    asyncio.run(run("asyncio", handle=handle)["main"]())


def test_once():
    with sqlite3.connect(":memory:", check_same_thread=False) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER)")
        consumers = Consumers()
        run("Effects exactly once", connection=connection, consumer=consumers)
        assert connection.execute("SELECT id FROM orders").fetchall() == [(1,), (2,)]
        assert consumers.outcomes() == [["ack", "ack"]]


def test_testing():
    run("Tests of an app", handle=lambda record: record.json())


def test_example_program(address, capsys):
    runpy.run_path(str(FOLDER / "example.py"), run_name="__main__")
    assert capsys.readouterr().out.count("shardId-000000000000") == 2
