// SPDX-License-Identifier: Apache-2.0
// app.ts WAY CLIENT_ID CONCURRENCY - an app that does what its records ask for, and prints what it did as JSON lines.
import { writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Consumer, SessionTakenOver, type KinesisRecord } from "kinesis-sidecar";

interface Task {
    n: number;
    do: "ack" | "slow" | "fail" | "dead_letter" | "drop" | "break" | "raise";
    times: number;
    ms: number;
}

type Outcome = "ack" | "retry" | "dead_letter" | "drop" | "break" | "raise";

const RACE_REPORT = 1000;
const ACK_DEADLINE_MS = 2000;
const BATCH = { maxRecords: 100, maxWaitMs: 200 };

const [way = "run", clientId = "app", concurrency = "1"] = process.argv.slice(2);

function print(line: object): void {
    writeSync(1, JSON.stringify(line) + "\n");
}

/** Does what a record asks for and returns the outcome. */
async function perform(task: Task, record: KinesisRecord): Promise<Outcome> {
    switch (task.do) {
        case "slow":
            await sleep(task.ms);
            return "ack";
        case "fail":
            return record.attempt <= task.times ? "retry" : "ack";
        case "dead_letter":
            record.deadLetter(`asked ${task.n}`);
            return "dead_letter";
        case "drop":
            record.drop();
            return "drop";
        case "break":
            return record.attempt === 1 && way !== "run" ? "break" : "ack";
        case "raise":
            if (record.attempt > 1) return "ack";
            return way === "run" ? "retry" : "raise";
        default:
            return "ack";
    }
}

/** Handles a record and prints its begin and its end. */
async function handle(record: KinesisRecord): Promise<{ task: Task; outcome: Outcome }> {
    const task = record.json<Task>();
    const { n } = task;
    const { attempt } = record;
    print({ n, attempt, at: "begin" });
    const outcome = await perform(task, record);
    if (outcome === "break" || outcome === "raise") print({ n, attempt, at: outcome });
    else print({ n, attempt, at: "end", outcome });
    return { task, outcome };
}

async function run(consumer: Consumer): Promise<void> {
    const handler = async (record: KinesisRecord) => {
        const { task, outcome } = await handle(record);
        if (outcome === "retry") throw new Error(`fail ${task.n}`);
    };
    await consumer.run(handler, { concurrency: Number(concurrency) });
}

/** Returns whether the loop is to be left. */
async function step(record: KinesisRecord): Promise<boolean> {
    const { task, outcome } = await handle(record);
    if (outcome === "retry") record.retry({ reason: `fail ${task.n}` });
    if (outcome === "raise") throw new Error(`raise ${task.n}`);
    return outcome === "break";
}

async function each(consumer: Consumer): Promise<void> {
    for await (const record of consumer) if (await step(record)) break;
}

async function batches(consumer: Consumer): Promise<void> {
    for await (const batch of consumer.batches(BATCH)) for (const record of batch) if (await step(record)) return;
}

async function race(consumer: Consumer): Promise<void> {
    let count = 0;
    let sum = 0;
    const handler = (record: KinesisRecord) => {
        sum ^= record.data[0] ?? 0;
        if (++count % RACE_REPORT === 0) writeSync(1, `${count}\n`);
    };
    await consumer.run(handler);
}

const ways: { [way: string]: (consumer: Consumer) => Promise<void> } = { run, each, batches, race };
const consumer = new Consumer(clientId, way === "race" ? { maxInFlight: 10_000 } : { ackDeadlineMs: ACK_DEADLINE_MS });
let stopped = false;
process.once("SIGTERM", () => {
    stopped = true;
    consumer.stop();
});
try {
    await ways[way]!(consumer);
} catch (error) {
    if (error instanceof SessionTakenOver) {
        print({ at: "taken_over" });
        process.exitCode = 3;
    } else if (!(error instanceof Error && error.message.startsWith("raise "))) throw error;
} finally {
    await consumer.close();
}
if (stopped) print({ at: "stopped" });
