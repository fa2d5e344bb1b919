// SPDX-License-Identifier: Apache-2.0
// The package against the real sidecar.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import {
    Consumer,
    SessionTakenOver,
    SidecarError,
    type ConsumerEvent,
    type ConsumerOptions,
    type KinesisRecord,
} from "kinesis-sidecar";
import { RealSidecar } from "./real.js";
import { until } from "./scripted.js";

let sidecar: RealSidecar;
let consumers: Consumer[];

beforeEach(() => {
    sidecar = new RealSidecar();
    consumers = [];
});

afterEach(async () => {
    await Promise.all(consumers.map((consumer) => consumer.close()));
    await sidecar.stop();
});

function consumerOf(clientId = "me", options: ConsumerOptions = {}): Consumer {
    const consumer = new Consumer(clientId, { url: sidecar.url, ...options });
    consumers.push(consumer);
    return consumer;
}

const numberOf = (record: KinesisRecord) => record.json<{ n: number }>().n;
const numbers = (count: number, key?: (n: number) => string) =>
    Array.from({ length: count }, (_, n) => ({ key: key?.(n) ?? "k", value: { n } }));

test("all_outcomes_reach_the_sidecar", async () => {
    await sidecar.start("--max-attempts", "3");
    await sidecar.put(...numbers(5));
    const deliveries: number[] = [];
    const consumer = consumerOf();
    const done = consumer.run(
        async (record) => {
            const n = numberOf(record);
            deliveries.push(n);
            if (n === 0) return;
            if (n === 1 && record.attempt === 1) record.retry({ delayMs: 1, reason: "once" });
            if (n === 2) record.deadLetter("asked 2");
            if (n === 3) record.drop();
            if (n === 4) throw new Error("fail 4");
        },
        { signals: false },
    );
    await until("all records are settled", () => sidecar.isSettled(5));
    consumer.stop();
    await done;
    assert.deepEqual(deliveries, [0, 1, 1, 2, 3, 4, 4, 4]);
    const letters = await sidecar.deadLetters();
    assert.deepEqual(letters.map(({ reason }) => reason).sort(), ["asked 2", "fail 4"]);
    assert.deepEqual(await sidecar.sessions(), []);
});

test("order_per_key_is_kept_with_failing_handlers_and_concurrency_8", async () => {
    await sidecar.start();
    const keys = 12;
    await sidecar.put(...numbers(480, (n) => `key-${n % keys}`));
    const finished = new Map<string, number[]>();
    const running = new Set<string>();
    let handled = 0;
    const consumer = consumerOf();
    const done = consumer.run(
        async (record) => {
            const { partitionKey } = record;
            const n = numberOf(record);
            assert.ok(!running.has(partitionKey), `two records of ${partitionKey} at the same time`);
            running.add(partitionKey);
            await sleep(n % 3);
            running.delete(partitionKey);
            if (n % 7 === 0 && record.attempt === 1) throw new Error(`fail ${n}`);
            finished.set(partitionKey, [...(finished.get(partitionKey) ?? []), n]);
            handled++;
        },
        { concurrency: 8, signals: false },
    );
    await until("all records are settled", () => sidecar.isSettled(480));
    consumer.stop();
    await done;
    assert.equal(finished.size, keys);
    for (const [key, seen] of finished)
        assert.deepEqual(
            seen,
            [...seen].sort((a, b) => a - b),
            key,
        );
    assert.equal(handled, 480);
});

test("slow_handler_beyond_the_ack_deadline_handles_once", async () => {
    await sidecar.start();
    await sidecar.put(...numbers(1));
    let begun = 0;
    const consumer = consumerOf("me", { ackDeadlineMs: 1000 });
    const done = consumer.run(
        async () => {
            begun++;
            await sleep(3000);
        },
        { signals: false },
    );
    await until("the record is settled", () => sidecar.isSettled(1));
    consumer.stop();
    await done;
    assert.equal(begun, 1);
});

test("break_out_of_a_loop_gives_the_record_back", async () => {
    await sidecar.start();
    await sidecar.put(...numbers(3));
    const first: number[] = [];
    const consumer = consumerOf();
    for await (const record of consumer) {
        first.push(numberOf(record));
        if (first.length === 2) break;
    }
    await consumer.close();
    assert.deepEqual(first, [0, 1]);
    const second: number[] = [];
    for await (const record of consumerOf()) {
        second.push(numberOf(record));
        if (second.length === 2) break;
    }
    assert.deepEqual(second, [1, 2]);
});

test("batches_are_acknowledged_when_the_next_one_is_asked_for", async () => {
    await sidecar.start();
    await sidecar.put(...numbers(10));
    const sizes: number[] = [];
    const consumer = consumerOf();
    const stop = (async () => {
        await until("all records are settled", () => sidecar.isSettled(10));
        consumer.stop();
    })();
    for await (const batch of consumer.batches({ maxRecords: 4, maxWaitMs: 100 })) {
        sizes.push(batch.length);
        if (sizes.length === 2) batch.ack();
    }
    await stop;
    assert.equal(
        sizes.reduce((sum, size) => sum + size),
        10,
    );
    assert.ok(Math.max(...sizes) <= 4);
});

test("retried_batch_is_redelivered_in_order", async () => {
    await sidecar.start();
    await sidecar.put(...numbers(4));
    const seen: string[] = [];
    const consumer = consumerOf();
    for await (const batch of consumer.batches({ maxRecords: 4, maxWaitMs: 60_000 })) {
        for (const record of batch) seen.push(`${numberOf(record)}/${record.attempt}`);
        if (seen.length === 4) batch.retry({ delayMs: 1, reason: "again" });
        else break;
    }
    assert.deepEqual(seen, ["0/1", "1/1", "2/1", "3/1", "0/2", "1/2", "2/2", "3/2"]);
    assert.equal(consumer.failed, 0);
});

test("stop_waits_for_running_handlers_and_gives_the_rest_back", async () => {
    await sidecar.start();
    await sidecar.put(...numbers(20, (n) => `key-${n}`));
    const begun: number[] = [];
    const ended: number[] = [];
    let finish: () => void = () => {};
    const gate = new Promise<void>((resolve) => (finish = resolve));
    const consumer = consumerOf();
    const done = consumer.run(
        async (record) => {
            begun.push(numberOf(record));
            await gate;
            ended.push(numberOf(record));
        },
        { concurrency: 4, signals: false },
    );
    await until("four handlers run", () => begun.length === 4);
    consumer.stop();
    finish();
    await done;
    assert.deepEqual(ended.sort(), begun.sort());
    assert.equal(begun.length, 4);
    const rest: number[] = [];
    for await (const record of consumerOf()) {
        rest.push(numberOf(record));
        if (rest.length === 16) break;
    }
    assert.deepEqual(new Set([...begun, ...rest]).size, 20);
});

test("sigterm_stops_a_run", async () => {
    await sidecar.start();
    await sidecar.put(...numbers(1));
    const script = `
    import { Consumer } from "kinesis-sidecar";
    await new Consumer("me").run(() => process.stdout.write("handled"));
    process.stdout.write(" stopped");
  `;
    const env = { ...process.env, KINESIS_SIDECAR_URL: sidecar.url };
    const child = spawn(process.execPath, ["--input-type=module", "--eval", script], {
        env,
        stdio: ["ignore", "pipe", "inherit"],
    });
    let output = "";
    child.stdout.on("data", (part) => (output += String(part)));
    const exited = new Promise((resolve) => child.on("exit", resolve));
    await until("the record is handled", () => output === "handled");
    child.kill("SIGTERM");
    assert.equal(await exited, 0);
    assert.equal(output, "handled stopped");
    assert.ok(await sidecar.isSettled(1));
});

test("killed_sidecar_that_restarts_redelivers_to_the_handler_that_runs", async () => {
    await sidecar.start();
    await sidecar.put(...numbers(2));
    const begun: number[] = [];
    const events: ConsumerEvent[] = [];
    let finish: () => void = () => {};
    const gate = new Promise<void>((resolve) => (finish = resolve));
    const consumer = consumerOf("me", { onEvent: (event) => void events.push(event) });
    const done = consumer.run(
        async (record) => {
            begun.push(numberOf(record));
            await gate;
        },
        { signals: false },
    );
    await until("the first handler runs", () => begun.length === 1);
    await sidecar.kill();
    await until("the connection is lost", () => events.some(({ type }) => type === "disconnected"));
    await sidecar.restart();
    await until("a new session began", () => events.filter(({ type }) => type === "session").length === 2);
    await until("both records are in flight again", async () => {
        const sessions = (await sidecar.sessions()) as { in_flight: number }[];
        return sessions[0]?.in_flight === 2;
    });
    finish();
    await until("both records are settled", () => sidecar.isSettled(2));
    consumer.stop();
    await done;
    assert.deepEqual(begun, [0, 1]);
    assert.equal(consumer.stale, 0);
});

test("unix_socket_with_a_token_works", async () => {
    const socket = join(sidecar.folder, "api.sock");
    const tokenFile = join(sidecar.folder, "token");
    writeFileSync(tokenFile, "secret\n", { mode: 0o600 });
    sidecar.authorize("secret");
    await sidecar.start("--listen", `unix:${socket}`, "--token-file", tokenFile);
    await sidecar.put(...numbers(2));
    const seen: number[] = [];
    const consumer = consumerOf("me", { tokenFile });
    const done = consumer.run((record) => void seen.push(numberOf(record)), { signals: false });
    await until("both records are settled", () => sidecar.isSettled(2));
    consumer.stop();
    await done;
    assert.deepEqual(seen, [0, 1]);
    await assert.rejects(
        consumerOf("other").run(() => {}, { signals: false }),
        (error: SidecarError) => error.status === 401,
    );
});

test("second_consumer_with_the_same_client_id_takes_the_session_over", async () => {
    await sidecar.start();
    await sidecar.put(...numbers(3));
    const first = consumerOf().run(() => sleep(1), { signals: false });
    const taken = assert.rejects(first, SessionTakenOver);
    await until("the records are settled", () => sidecar.isSettled(3));
    const second = consumerOf();
    const seen: number[] = [];
    const done = second.run((record) => void seen.push(numberOf(record)), { signals: false });
    await taken;
    await sidecar.put(...numbers(2));
    await until("the second consumer has the next records", () => seen.length === 2);
    second.stop();
    await done;
});

test("rest_of_a_retried_batch_is_handed_out_once", async () => {
    await sidecar.start();
    await sidecar.put(...numbers(3));
    const seen: number[][] = [];
    for await (const batch of consumerOf().batches({ maxRecords: 3, maxWaitMs: 60_000 })) {
        seen.push(batch.records.map(numberOf));
        if (seen.length === 2) break;
        batch.records[0]!.retry({ delayMs: 1 });
        await sidecar.put({ value: { n: 3 } }, { value: { n: 4 } });
    }
    assert.deepEqual(seen, [
        [0, 1, 2],
        [0, 3, 4],
    ]);
});

test("persisted_ack_waits_for_the_checkpoint", async () => {
    await sidecar.start("--checkpoint-interval-ms", "200");
    await sidecar.put(...numbers(1));
    for await (const record of consumerOf()) {
        assert.equal(await record.ack({ persisted: true }), true);
        break;
    }
});

test("record_larger_than_its_chunk_is_delivered_whole", async () => {
    await sidecar.start();
    const value = { n: 0, text: "x".repeat(1_000_000) };
    await sidecar.put({ value });
    for await (const record of consumerOf()) {
        assert.deepEqual(record.json(), value);
        break;
    }
});

test("older_sidecar_that_does_not_know_an_option_is_an_error_with_its_name", async () => {
    await sidecar.start();
    const consumer = consumerOf("me", { ordering: "none", lanes: 3 });
    await assert.rejects(
        consumer.run(() => {}, { signals: false }),
        (error: SidecarError) => error.status === 400 && error.detail.includes("lanes"),
    );
});
