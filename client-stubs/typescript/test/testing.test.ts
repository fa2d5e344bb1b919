// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { test } from "node:test";
import { TestConsumer } from "kinesis-sidecar/testing";

test("run_handles_all_records_and_keeps_their_outcomes", async () => {
    const consumer = new TestConsumer();
    consumer.put({ json: { n: 1 } }, { data: "no JSON" }, { json: { n: 3 }, partitionKey: "b", attempt: 2 });
    const done: number[] = [];
    await consumer.run(
        (record) => {
            const { n } = record.json<{ n: number }>();
            done.push(n);
            if (record.attempt === 2) record.deadLetter("twice");
        },
        { concurrency: 2 },
    );
    assert.deepEqual(done.sort(), [1, 3]);
    const outcomes = new Map(consumer.outcomes.map(({ record, ...rest }) => [record.sequenceNumber, rest]));
    assert.deepEqual(outcomes.get("1"), { outcome: "ack" });
    assert.equal(outcomes.get("2")?.outcome, "retry");
    assert.match(outcomes.get("2")?.reason ?? "", /JSON/);
    assert.deepEqual(outcomes.get("3"), { outcome: "dead_letter", reason: "twice" });
});

test("iteration_acknowledges_when_the_next_record_is_asked_for", async () => {
    const consumer = new TestConsumer();
    const [first] = consumer.put({ json: 1 }, { json: 2 });
    for await (const record of consumer) {
        if (record === first) assert.equal(consumer.outcomes.length, 0);
        else break;
    }
    assert.deepEqual(
        consumer.outcomes.map(({ record, outcome }) => [record, outcome]),
        [[first, "ack"]],
    );
});

test("batches_hand_out_the_last_records_too", async () => {
    const consumer = new TestConsumer();
    consumer.put({}, {}, {});
    const sizes: number[] = [];
    for await (const batch of consumer.batches({ maxRecords: 2 })) sizes.push(batch.length);
    assert.deepEqual(sizes, [2, 1]);
    assert.equal(consumer.outcomes.length, 3);
});

test("records_of_one_key_are_handled_in_order_with_concurrency", async () => {
    const consumer = new TestConsumer();
    consumer.put(...Array.from({ length: 30 }, (_, n) => ({ json: n, partitionKey: String(n % 3) })));
    const seen = new Map<string, number[]>();
    await consumer.run(
        async (record) => {
            await new Promise((resolve) => setImmediate(resolve));
            seen.set(record.partitionKey, [...(seen.get(record.partitionKey) ?? []), record.json<number>()]);
        },
        { concurrency: 8 },
    );
    for (const numbers of seen.values())
        assert.deepEqual(
            numbers,
            [...numbers].sort((a, b) => a - b),
        );
});

test("consumer_is_disposed_asynchronously_where_the_runtime_can", async () => {
    if (!Symbol.asyncDispose) return;
    const consumer = new TestConsumer();
    await consumer[Symbol.asyncDispose]();
    assert.equal(consumer.outcomes.length, 0);
});

test("package_loads_as_commonjs", () => {
    const require = createRequire(import.meta.url);
    for (const path of ["kinesis-sidecar", "kinesis-sidecar/testing", "kinesis-sidecar/nestjs"])
        assert.ok(Object.keys(require(path) as object).length > 0, path);
    assert.equal(typeof (require("kinesis-sidecar") as { Consumer: unknown }).Consumer, "function");
});
