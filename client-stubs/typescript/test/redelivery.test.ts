// SPDX-License-Identifier: Apache-2.0
// Redeliveries within a session, against a scripted sidecar.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Batch, Consumer, ConsumerOptions, KinesisRecord } from "kinesis-sidecar";
import { consumerOf, events, sidecar } from "./harness.js";
import {
    accepted,
    answerJson,
    barrierFrame,
    heartbeatFrame,
    leaseLostFrame,
    problem,
    recordFrame,
    sessionFrame,
    until,
    type RecordLike,
} from "./scripted.js";

const FOREVER_MS = 3_600_000;
const count = (wanted: string) => events.filter(({ type }) => type === wanted).length;
const nameOf = ({ sequenceNumber, attempt }: KinesisRecord) => `${Number(sequenceNumber) - 1000}/${attempt}`;
const namesOf = (batch: Batch) => batch.records.map(nameOf);
const settled = () => sidecar.items().map((item) => `${item.ack_id ?? item.batch_id} ${item.outcome}`);
const isSettled = (name: string) => () => settled().includes(name);

const frames = (numbers: number[], more: Partial<RecordLike> = {}) => numbers.map((n) => recordFrame({ n, ...more }));
const again = (...numbers: number[]) => frames(numbers, { attempt: 2, batchId: "batch-2" });
const ofNextLease = (...numbers: number[]) =>
    numbers.map((n) => recordFrame({ n, ackId: `next-${n}`, batchId: "batch-2", epoch: 4 }));

const giveNoAnswer: typeof sidecar.onSettle = (_request, response) => response.destroy();

/** Writes frames and waits until the consumer has read them. */
async function deliver(...written: Buffer[]): Promise<void> {
    const before = count("heartbeat");
    sidecar.write(...written, heartbeatFrame);
    await until("the frames are read", () => count("heartbeat") > before);
}

/** Takes a batch in a loop that is left. */
async function leaveBatch(consumer: Consumer, maxRecords: number, ...written: Buffer[]): Promise<Batch> {
    sidecar.onStream = (response) => {
        sidecar.begin(response);
        sidecar.write(...written);
    };
    for await (const batch of consumer.batches({ maxRecords, maxWaitMs: FOREVER_MS })) return batch;
    return assert.fail("the consumer has stopped");
}

async function loop(consumer: Consumer, length: number): Promise<string[]> {
    const names: string[] = [];
    for await (const record of consumer) if (names.push(nameOf(record)) === length) break;
    return names;
}

test("records_of_a_loop_that_was_left_are_handed_out_by_the_next_loop", async () => {
    const consumer = consumerOf();
    const batch = await leaveBatch(consumer, 3, ...frames([1, 2, 3, 4]));
    batch.records[1]!.drop();
    assert.deepEqual(await loop(consumer, 1), ["1/1"]);
    assert.deepEqual(await loop(consumer, 3), ["1/1", "3/1", "4/1"]);
    await until("record 3 is acknowledged", isSettled("ack-3-1 ack"));
    assert.ok(!settled().includes("ack-4-1 ack"));
});

test("record_that_got_its_outcome_after_its_loop_is_not_handed_out_again", async () => {
    const consumer = consumerOf();
    const batch = await leaveBatch(consumer, 3, ...frames([1, 2, 3, 4]));
    batch.records[0]!.ack();
    assert.deepEqual(await loop(consumer, 1), ["2/1"]);
    batch.records[2]!.drop(); // It waits for its turn.
    assert.deepEqual(await loop(consumer, 2), ["2/1", "4/1"]);
    await until("record 1 is acknowledged", isSettled("ack-1-1 ack"));
    await until("record 3 is dropped", isSettled("ack-3-1 drop"));
});

test("records_of_a_loop_that_was_left_are_handed_out_once_after_their_redelivery", async () => {
    const consumer = consumerOf();
    await leaveBatch(consumer, 2, ...frames([1, 2]));
    await deliver(...again(1, 2, 3));
    assert.deepEqual(await loop(consumer, 3), ["1/1", "2/1", "3/2"]);
    await until("the redelivery is acknowledged", isSettled("ack-1-2 ack"));
});

test("redelivery_replaces_records_of_a_loop_that_was_left", async () => {
    const consumer = consumerOf();
    await leaveBatch(consumer, 3, ...frames([1, 2, 3]));
    assert.deepEqual(await loop(consumer, 1), ["1/1"]);
    await deliver(...again(2, 3));
    assert.deepEqual(await loop(consumer, 3), ["1/1", "2/2", "3/2"]);
});

test("records_that_a_retry_takes_back_from_a_loop_that_was_left_are_handed_out_behind_it", async () => {
    const consumer = consumerOf();
    const batch = await leaveBatch(consumer, 2, ...frames([1, 2]));
    batch.records[0]!.retry();
    await until("the record is retried", isSettled("ack-1-1 retry"));
    await deliver(barrierFrame("1"), ...again(1, 2, 3));
    assert.deepEqual(await loop(consumer, 3), ["1/2", "2/1", "3/2"]);
});

/** Begins a loop that keeps the names of its records, and waits until it waits for one. */
async function beginLoop(consumer: Consumer): Promise<string[]> {
    const names: string[] = [];
    void (async () => {
        for await (const record of consumer) names.push(nameOf(record));
    })();
    await deliver();
    return names;
}

for (const reason of ["", "EXPIRED"])
    test(`record_that_a_retry_takes_back_from_a_left_loop_waits_for_its_redelivery_${reason}`, async () => {
        if (reason) refuse(reason);
        const consumer = consumerOf();
        const batch = await leaveBatch(consumer, 2, ...frames([1, 2]));
        batch.records[0]!.retry();
        await until("the record is retried", isSettled("ack-1-1 retry"));
        batch.records[1]!.extend(FOREVER_MS);
        const outcomes = () => sidecar.settled.flatMap(({ settlements }) => settlements.map(({ outcome }) => outcome));
        await until("the retry is answered: requests leave one at a time", () => outcomes().includes("extend"));
        await deliver(barrierFrame(sidecar.settled[0]!.barrier!));
        const names = await beginLoop(consumer);
        await deliver(...again(1, 2, 3));
        await until("the last record is handed out", () => names.includes("3/2"));
        assert.deepEqual(names, ["1/2", "2/2", "3/2"]);
    });

test("record_that_a_refused_retry_leaves_to_a_left_loop_is_handed_out_again", async () => {
    refuse("MALFORMED");
    const consumer = consumerOf();
    const batch = await leaveBatch(consumer, 2, ...frames([1, 2]));
    batch.records[0]!.retry();
    await until("the refusal is counted", () => consumer.failed === 1);
    await deliver(barrierFrame(sidecar.settled[0]!.barrier!));
    assert.deepEqual(await loop(consumer, 1), ["2/1"]);
});

// The ack deadline of both records has passed.
test("record_of_a_left_loop_waits_for_its_redelivery_behind_that_of_another", async () => {
    const consumer = consumerOf();
    await leaveBatch(consumer, 2, ...frames([1, 2]));
    await deliver(...again(1));
    const names = await beginLoop(consumer);
    await deliver(...again(2));
    await until("the last record is handed out", () => names.length === 2);
    assert.deepEqual(names, ["1/1", "2/2"]);
});

// The retry took record 1 back for good: the sidecar has made a dead letter of it.
test("redelivery_that_a_left_loop_has_is_not_taken_back_by_the_retry_before_it", async () => {
    let answer = () => {};
    sidecar.onSettle = (_request, response) => (answer = () => answerJson(response, 200, accepted));
    const consumer = consumerOf();
    const batch = await leaveBatch(consumer, 2, ...frames([1, 2]));
    batch.records[0]!.retry();
    await until("the record is retried", isSettled("ack-1-1 retry"));
    await deliver(barrierFrame(sidecar.settled[0]!.barrier!), ...again(2));
    const names = await beginLoop(consumer);
    answer();
    await until("the redelivery is handed out", () => names.length === 1);
    assert.deepEqual(names, ["2/1"]);
});

test("records_that_a_retry_holds_stay_in_order_in_the_next_loop", async () => {
    const { consumer, seen } = await retryWithoutAnswer();
    consumer.stop();
    await deliver(recordFrame({ n: 4 }));
    const names = await beginLoop(consumer);
    refuse("MALFORMED");
    await deliver(barrierFrame(sidecar.settled[0]!.barrier!));
    await until("all records are handed out", () => names.length === 3);
    assert.deepEqual(seen, ["1/1"]);
    assert.deepEqual(names, ["2/1", "3/1", "4/1"]);
});

test("record_of_a_batch_that_was_not_handed_out_is_handed_out_by_the_next_loop", async () => {
    const consumer = consumerOf();
    const batches = consumer.batches({ maxRecords: 2, maxWaitMs: FOREVER_MS });
    const first = batches.next();
    await until("the stream is open", () => sidecar.streams.length === 1);
    await deliver(recordFrame({ n: 1 }));
    consumer.stop();
    assert.equal((await first).done, true);
    const names = await beginLoop(consumer);
    await until("the record is handed out", () => names.length > 0);
    assert.deepEqual(names, ["1/1"]);
});

test("record_of_a_lost_lease_is_not_handed_out_by_the_next_loop", async () => {
    const consumer = consumerOf();
    await leaveBatch(consumer, 1, ...frames([1]));
    await deliver(leaseLostFrame, ...ofNextLease(2));
    assert.deepEqual(await loop(consumer, 1), ["2/1"]);
});

test("record_of_a_loop_that_was_left_before_the_connection_ended_is_handed_out_once", async () => {
    const consumer = consumerOf();
    await leaveBatch(consumer, 1, ...frames([1]));
    sidecar.onStream = (response) => {
        sidecar.begin(response);
        sidecar.write(...again(1, 2));
    };
    sidecar.streams[0]!.destroy();
    await until("a second stream is open", () => sidecar.streams.length === 2);
    assert.deepEqual((await loop(consumer, 2)).map((name) => name[0]), ["1", "2"]);
});

/** Opens the stream, writes frames, and returns a function that returns the next batch. */
async function batchesOf(consumer: Consumer, maxRecords: number, ...written: Buffer[]): Promise<() => Promise<Batch>> {
    const batches = consumer.batches({ maxRecords, maxWaitMs: FOREVER_MS });
    const next = async () => {
        let batch: Batch | undefined;
        batches.next().then(({ value }) => (batch = value as Batch), assert.ifError);
        await until("a batch is handed out", () => batch !== undefined);
        return batch!;
    };
    const first = next();
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(...written);
    let isFirst = true;
    return () => {
        const batch = isFirst ? first : next();
        isFirst = false;
        return batch;
    };
}

/** The app has retried record 1, and has not begun 2 and 3. The retry has no answer. */
async function retryWithoutAnswer(
    options: ConsumerOptions = {},
    onSettle = giveNoAnswer,
): Promise<{ consumer: Consumer; seen: string[] }> {
    sidecar.onSettle = onSettle;
    const consumer = consumerOf(options);
    const seen: string[] = [];
    void (async () => {
        for await (const record of consumer) {
            seen.push(nameOf(record));
            if (seen.length === 1) record.retry();
        }
    })();
    await until("the stream is open", () => sidecar.streams.length === 1);
    await deliver(...frames([1, 2, 3]));
    await until("the retry is sent", () => sidecar.settled.length > 0);
    return { consumer, seen };
}

/** Refuses the outcome of record 1 from now on. */
function refuse(reason: string): void {
    sidecar.onSettle = (request, response) => {
        const isRefused = request.settlements.some((item) => item.ack_id === "ack-1-1");
        const failed = isRefused ? [{ ack_id: "ack-1-1", reason, message: "" }] : [];
        answerJson(response, 200, { ...accepted, failed });
    };
}

/** Refuses the retry of record 1, and waits until the consumer has read that. */
async function refuseRepetition(reason: string): Promise<void> {
    refuse(reason);
    sidecar.write(recordFrame({ n: 9, batchId: "batch-9", shardId: "shardId-000000000001" }));
    // Settle requests leave one at a time.
    await until("a later request is sent", isSettled("ack-9-1 ack"));
}

// --- The retry is refused because its record is redelivered ---

for (const reason of ["EXPIRED", "FENCED"])
    for (const answer of ["no_answer", "503"]) {
        const onSettle: typeof sidecar.onSettle =
            answer === "503" ? (_request, response) => answerJson(response, 503, problem(503)) : giveNoAnswer;

        test(`retry_repeated_after_${answer}_and_${reason}_before_the_redelivery_counts_as_accepted`, async () => {
            const { consumer, seen } = await retryWithoutAnswer({}, onSettle);
            await deliver(barrierFrame(sidecar.settled[0]!.barrier!));
            await refuseRepetition(reason);
            await deliver(...again(1, 2, 3));
            await until("all records are handed out", () => seen.length === 5);
            assert.deepEqual(seen, ["1/1", "9/1", "1/2", "2/2", "3/2"]);
            assert.equal(consumer.failed, 0);
            assert.equal(count("settle_failed"), 0);
        });

        test(`retry_repeated_after_${answer}_and_${reason}_after_the_redelivery_counts_as_accepted`, async () => {
            const { consumer, seen } = await retryWithoutAnswer({}, onSettle);
            await deliver(barrierFrame(sidecar.settled[0]!.barrier!), ...again(1, 2, 3));
            await refuseRepetition(reason);
            assert.deepEqual(seen, ["1/1", "1/2", "2/2", "3/2", "9/1"]);
            assert.equal(consumer.failed, 0);
            assert.equal(count("settle_failed"), 0);
        });
    }

// SETTLED: another delivery of the record was settled.
for (const reason of ["MALFORMED", "SETTLED"])
    test(`repeated_retry_that_is_${reason}_counts_as_refused`, async () => {
        const { consumer, seen } = await retryWithoutAnswer();
        await refuseRepetition(reason);
        // Without a barrier the session is one of another process.
        assert.deepEqual(seen, ["1/1", "9/1"]);
        await deliver(barrierFrame(sidecar.settled[0]!.barrier!));
        await until("all records are handed out", () => seen.length === 4);
        assert.deepEqual(seen, ["1/1", "9/1", "2/1", "3/1"]);
        assert.equal(consumer.failed, 1);
    });

// The sidecar accepted the first copy of the request, wrote its barrier, and was restarted.
test("repeated_retry_of_an_unknown_id_holds_its_scope_until_the_next_session", async () => {
    const { consumer, seen } = await retryWithoutAnswer();
    await deliver(barrierFrame(sidecar.settled[0]!.barrier!));
    await refuseRepetition("UNKNOWN");
    sidecar.onStream = (response) => {
        sidecar.begin(response);
        sidecar.write(...again(1, 2, 3));
    };
    sidecar.streams[0]!.destroy();
    await until("all records are handed out", () => seen.length === 5);
    assert.deepEqual(seen, ["1/1", "9/1", "1/2", "2/2", "3/2"]);
    assert.equal(consumer.failed, 1);
});

// The ack deadline has passed: the records are on their way again.
test("retry_that_is_expired_waits_for_the_redelivery", async () => {
    const { consumer, seen } = await retryWithoutAnswer({}, (_request, response) => {
        const failed = [{ ack_id: "ack-1-1", reason: "EXPIRED", message: "" }];
        answerJson(response, 200, { ...accepted, failed });
    });
    await refuseRepetition("EXPIRED");
    await deliver(...again(1, 2, 3), barrierFrame(sidecar.settled[0]!.barrier!));
    await until("all records are handed out", () => seen.length === 5);
    assert.deepEqual(seen, ["1/1", "9/1", "1/2", "2/2", "3/2"]);
    assert.equal(consumer.failed, 0);
});

// An ack deadline has passed while the app has record 1.
test("redelivery_replaces_the_records_of_its_scope_that_wait", async () => {
    const next = await batchesOf(consumerOf(), 1, ...frames([1, 2, 3]));
    assert.deepEqual(namesOf(await next()), ["1/1"]);
    await deliver(...again(2, 3));
    assert.deepEqual(namesOf(await next()), ["2/2"]);
    assert.deepEqual(namesOf(await next()), ["3/2"]);
});

test("retry_of_an_ended_session_holds_its_scope", async () => {
    const { consumer, seen } = await retryWithoutAnswer({}, (_request, response) =>
        answerJson(response, 410, problem(410)),
    );
    await until("the retry is stale", () => consumer.stale === 1);
    await refuseRepetition("EXPIRED");
    assert.deepEqual(seen, ["1/1", "9/1"]);
});

test("repeated_drop_that_is_expired_counts_as_refused", async () => {
    sidecar.onSettle = giveNoAnswer;
    const consumer = consumerOf();
    const next = await batchesOf(consumer, 1, recordFrame({ n: 1 }));
    (await next()).records[0]!.drop();
    await until("the drop is sent", () => sidecar.settled.length > 0);
    refuse("EXPIRED");
    await until("the refusal is counted", () => consumer.failed === 1);
});

for (const [ordering, expected] of [
    ["shard", ["1/1", "1/2"]],
    ["none", ["1/1", "2/1", "3/1", "1/2"]],
] as const)
    test(`redelivery_of_a_retried_record_is_handed_out_before_the_answer_with_the_ordering_${ordering}`, async () => {
        const { seen } = await retryWithoutAnswer({ ordering });
        await deliver(...again(1));
        await until("the redelivery is handed out", () => seen.includes("1/2"));
        assert.deepEqual(seen, expected);
    });

test("redelivery_before_the_barrier_is_not_taken_back", async () => {
    const { seen } = await retryWithoutAnswer();
    await deliver(...again(1, 2, 3));
    await refuseRepetition("EXPIRED");
    await deliver(barrierFrame(sidecar.settled[0]!.barrier!));
    assert.deepEqual(seen, ["1/1", "1/2", "2/2", "3/2", "9/1"]);
});

test("redelivery_of_another_retried_record_does_not_end_the_hold", async () => {
    const next = await batchesOf(consumerOf(), 2, ...frames([1, 2]));
    const [first, second] = (await next()).records;
    second!.retry();
    await until("the second record is retried", () => count("barrier") === 1);
    sidecar.onSettle = giveNoAnswer;
    first!.retry();
    await until("the first record is retried", isSettled("ack-1-1 retry"));
    let batch: Batch | undefined;
    void next().then((value) => (batch = value));
    await deliver(...again(2), recordFrame({ n: 3, batchId: "batch-2" }));
    assert.equal(batch, undefined);
    refuse("MALFORMED");
    await deliver(barrierFrame(sidecar.settled.at(-1)!.barrier!));
    await until("the hold ends", () => batch !== undefined);
    assert.deepEqual(namesOf(batch!), ["2/2", "3/1"]);
});

test("retry_takes_back_no_record_of_the_next_lease_epoch", async () => {
    const { seen } = await retryWithoutAnswer();
    await deliver(leaseLostFrame, ...ofNextLease(2));
    await refuseRepetition("FENCED");
    await deliver(barrierFrame(sidecar.settled[0]!.barrier!));
    await until("the record of the next epoch is handed out", () => seen.length === 3);
    assert.deepEqual(seen, ["1/1", "9/1", "2/1"]);
});

// The app has record 1 when its lease is lost. Another sidecar has settled the record.
test("retry_after_a_lost_lease_takes_nothing_of_the_next_lease_back", async () => {
    refuse("FENCED");
    const consumer = consumerOf();
    const next = await batchesOf(consumer, 1, ...frames([1]));
    const [record] = (await next()).records;
    await deliver(leaseLostFrame, ...ofNextLease(2));
    record!.retry();
    await until("the record is retried", isSettled("ack-1-1 retry"));
    await deliver(barrierFrame(sidecar.settled[0]!.barrier!));
    assert.deepEqual(namesOf(await next()), ["2/1"]);
    assert.equal(consumer.failed, 0);
});

test("late_barrier_of_an_earlier_retry_does_not_undo_a_later_one", async () => {
    const next = await batchesOf(consumerOf(), 2, ...frames([1, 2]));
    const [first, second] = (await next()).records;
    second!.retry();
    await until("the second record is retried", () => count("barrier") === 1);
    let answer: () => void = () => {};
    sidecar.onSettle = (_request, response) => (answer = () => answerJson(response, 200, accepted));
    first!.retry();
    await until("the first record is retried", isSettled("ack-1-1 retry"));
    const [earlier, later] = sidecar.settled.map(({ barrier }) => barrierFrame(barrier!));
    await deliver(later!, earlier!);
    answer();
    sidecar.onSettle = (_request, response) => answerJson(response, 200, accepted);
    await deliver(...frames([3, 4], { batchId: "batch-3" }));
    assert.deepEqual(namesOf(await next()), ["3/1", "4/1"]);
});

// --- The app has the record that is redelivered ---

test("rest_of_a_batch_is_not_handed_out_again_after_a_retry_of_its_first_record", async () => {
    const next = await batchesOf(consumerOf(), 3, ...frames([1, 2, 3]));
    (await next()).records[0]!.retry();
    await until("the first record is retried", () => count("barrier") === 1);
    await deliver(...again(1, 2, 3), ...frames([4, 5], { batchId: "batch-2" }));
    assert.deepEqual(namesOf(await next()), ["1/2", "4/1", "5/1"]);
    await until("the rest is acknowledged", () => settled().length === 3);
    assert.deepEqual(settled(), ["ack-1-1 retry", "ack-2-2 ack", "ack-3-2 ack"]);
});

test("record_of_a_running_handler_is_not_handed_out_again", async () => {
    const seen: string[] = [];
    let release: () => void = () => {};
    const released = new Promise<void>((resolve) => (release = resolve));
    const consumer = consumerOf();
    const done = consumer.run(
        (record) => {
            seen.push(nameOf(record));
            return released;
        },
        { concurrency: 2, signals: false },
    );
    try {
        await until("the stream is open", () => sidecar.streams.length === 1);
        sidecar.write(recordFrame({ n: 1 }));
        await until("the handler runs", () => seen.length === 1);
        await deliver(...again(1), recordFrame({ n: 2, batchId: "batch-2" }));
    } finally {
        release();
    }
    await until("the redelivery is settled", isSettled("ack-1-2 ack"));
    await until("the next record is handled", () => seen.length === 2);
    consumer.stop();
    await done;
    assert.deepEqual(seen, ["1/1", "2/1"]);
});

test("record_is_not_handed_out_again_by_a_second_redelivery", async () => {
    const next = await batchesOf(consumerOf(), 1, recordFrame({ n: 1 }));
    await next();
    await deliver(...again(1), recordFrame({ n: 1, attempt: 3, batchId: "batch-3" }));
    await deliver(recordFrame({ n: 2, batchId: "batch-3" }));
    assert.deepEqual(namesOf(await next()), ["2/1"]);
    await until("the last redelivery is acknowledged", () => settled().length === 1);
    assert.deepEqual(settled(), ["ack-1-3 ack"]);
});

test("batch_of_a_redelivered_record_is_not_acknowledged_while_the_app_has_the_record", async () => {
    const next = await batchesOf(consumerOf(), 2, ...frames([1, 2]));
    const { records } = await next();
    await deliver(...again(2), recordFrame({ n: 3, batchId: "batch-3" }));
    records[0]!.ack();
    await until("the first record is acknowledged", () => settled().length === 1);
    records[1]!.ack();
    await until("the redelivery is acknowledged", () => settled().length === 2);
    assert.deepEqual(settled(), ["ack-1-1 ack", "batch-2 ack"]);
});

for (const outcome of ["ack", "drop", "dead_letter"] as const)
    test(`${outcome}_without_an_answer_settles_the_redelivery_in_the_session`, async () => {
        sidecar.onSettle = giveNoAnswer;
        const next = await batchesOf(consumerOf(), 1, recordFrame({ n: 1 }));
        const record = (await next()).records[0]!;
        if (outcome === "dead_letter") record.deadLetter();
        else record[outcome]();
        await until("the outcome is sent", isSettled(`ack-1-1 ${outcome}`));
        await deliver(...again(1), recordFrame({ n: 2, batchId: "batch-2" }));
        sidecar.onSettle = (_request, response) => answerJson(response, 200, accepted);
        assert.deepEqual(namesOf(await next()), ["2/1"]);
        await until("the redelivery is settled", isSettled(`ack-1-2 ${outcome}`));
    });

test("acknowledgement_that_waits_settles_the_redelivery", async () => {
    const consumer = consumerOf({ ackIntervalMs: FOREVER_MS });
    const next = await batchesOf(consumer, 2, ...frames([1, 2]));
    const { records } = await next();
    records[0]!.ack();
    await deliver(...again(1), recordFrame({ n: 3, batchId: "batch-2" }), recordFrame({ n: 4, batchId: "batch-3" }));
    records[1]!.ack();
    const rest = (await next()).records;
    assert.deepEqual(rest.map(nameOf), ["3/1", "4/1"]);
    rest[0]!.ack();
    await consumer.close();
    assert.deepEqual(settled(), ["batch-2 ack", "ack-2-1 ack"]);
});

test("retry_that_waits_retries_the_redelivery", async () => {
    const other = { n: 8, batchId: "batch-0", shardId: "shardId-000000000001" };
    sidecar.onSettle = giveNoAnswer;
    const next = await batchesOf(consumerOf(), 2, recordFrame({ n: 1 }), recordFrame(other));
    const { records } = await next();
    records[1]!.drop();
    await until("the drop is sent, and the retry waits for its answer", isSettled("ack-8-1 drop"));
    records[0]!.retry();
    await deliver(...again(1), recordFrame({ n: 2, batchId: "batch-2" }));
    sidecar.onSettle = (request, response) => {
        if (request.barrier) sidecar.write(barrierFrame(request.barrier));
        answerJson(response, 200, accepted);
    };
    await until("the redelivery is retried", () => count("barrier") === 1);
    await deliver(recordFrame({ n: 1, attempt: 3, batchId: "batch-3" }), recordFrame({ n: 2, batchId: "batch-3" }));
    assert.deepEqual(namesOf(await next()), ["1/3", "2/1"]);
    assert.deepEqual(
        settled().filter((name) => name.endsWith("retry")),
        ["ack-1-2 retry"],
    );
});

test("record_that_is_retried_after_its_redelivery_is_handed_out_again", async () => {
    const next = await batchesOf(consumerOf(), 1, recordFrame({ n: 1 }));
    const batch = await next();
    await deliver(...again(1));
    batch.retry();
    await until("the redelivery is retried", () => count("barrier") === 1);
    await deliver(recordFrame({ n: 1, attempt: 3, batchId: "batch-3" }));
    assert.deepEqual(settled(), ["ack-1-2 retry"]);
    assert.deepEqual(namesOf(await next()), ["1/3"]);
});

test("record_of_the_app_is_not_handed_out_again_by_the_next_lease_epoch", async () => {
    const next = await batchesOf(consumerOf(), 1, recordFrame({ n: 1 }));
    await next();
    await deliver(leaseLostFrame, ...ofNextLease(1, 2));
    assert.deepEqual(namesOf(await next()), ["2/1"]);
    await until("the redelivery is acknowledged", () => settled().length === 1);
    assert.deepEqual(settled(), ["next-1 ack"]);
});

test("redelivered_record_is_extended_with_its_last_batch_alone", async () => {
    sidecar.onStream = (response) => sidecar.begin(response, sessionFrame({ ackDeadlineMs: 300 }));
    const next = await batchesOf(consumerOf(), 1, recordFrame({ n: 1 }));
    await next();
    await deliver(...again(1));
    const extended = () => sidecar.settled.flatMap(({ settlements }) => settlements.map((item) => item.batch_id));
    await until("the last batch is extended", () => extended().includes("batch-2"));
    const before = extended().length;
    await until("it is extended twice more", () => extended().length >= before + 2);
    assert.deepEqual(new Set(extended().slice(before)), new Set(["batch-2"]));
});
