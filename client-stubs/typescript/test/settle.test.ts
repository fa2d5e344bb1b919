// SPDX-License-Identifier: Apache-2.0
// What settle requests have, and what their answers mean, against a scripted sidecar.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Consumer, KinesisRecord, SidecarError } from "kinesis-sidecar";
import { collect, consumerOf, consumers, events, sidecar } from "./harness.js";
import {
    accepted,
    answerJson,
    barrierFrame,
    heartbeatFrame,
    problem,
    recordFrame,
    sessionFrame,
    until,
} from "./scripted.js";

const sequenceNumbersOf = (numbers: number[]) => numbers.map((n) => String(1000 + n));

for (const status of [409, 410]) {
    test(`settle_request_refused_with_${status}_is_stale`, async () => {
        const consumer = consumerOf();
        sidecar.onSettle = (_request, response) => answerJson(response, status, problem(status, "session-fenced"));
        const { done } = collect(consumer);
        await until("the stream is open", () => sidecar.streams.length === 1);
        sidecar.write(recordFrame({ n: 1 }), recordFrame({ n: 2 }), heartbeatFrame);
        await until("both settlements are stale", () => consumer.stale === 2);
        consumer.stop();
        await done;
    });
}

test("settle_request_refused_with_400_ends_the_run", async () => {
    sidecar.onSettle = (_request, response) => answerJson(response, 400, problem(400));
    const { done } = collect(consumerOf());
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 1 }));
    await assert.rejects(done, (error: SidecarError) => error.status === 400);
});

test("refused_outcome_takes_no_acknowledgement_along", async () => {
    sidecar.onSettle = (request, response) =>
        request.settlements.some(({ outcome }) => outcome === "dead_letter")
            ? answerJson(response, 400, problem(400))
            : answerJson(response, 200, accepted);
    const done = consumerOf({ ackIntervalMs: 3_600_000 }).run(
        (record) => void (record.sequenceNumber === "1002" && record.deadLetter()),
        { signals: false },
    );
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 1 }), recordFrame({ n: 2, batchId: "batch-2" }));
    await assert.rejects(done, (error: SidecarError) => error.status === 400);
    assert.deepEqual(
        sidecar.settled.map(({ settlements }) => settlements),
        [[{ ack_id: "ack-2-1", outcome: "dead_letter" }], [{ batch_id: "batch-1", outcome: "ack" }]],
    );
});

test("settle_request_without_an_answer_is_repeated", async () => {
    sidecar.onSettle = (_request, response) => {
        if (sidecar.settled.length === 1) response.destroy();
        else if (sidecar.settled.length === 2) answerJson(response, 503, problem(503));
        else answerJson(response, 200, accepted);
    };
    const consumer = consumerOf();
    const { done } = collect(consumer);
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 1 }));
    await until("the request was sent three times", () => sidecar.settled.length === 3);
    assert.deepEqual(sidecar.settled[2], sidecar.settled[0]);
    consumer.stop();
    await done;
    assert.equal(consumer.stale, 0);
});

test("slow_answer_does_not_hold_up_the_handlers", async () => {
    let answer: () => void = () => {};
    sidecar.onSettle = (_request, response) => {
        if (sidecar.settled.length > 1) answerJson(response, 200, accepted);
        else answer = () => answerJson(response, 200, accepted);
    };
    const { seen, done } = collect(consumerOf());
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 1 }));
    await until("the acknowledgement is on its way", () => sidecar.settled.length === 1);
    sidecar.write(recordFrame({ n: 2 }), recordFrame({ n: 3 }));
    await until("all records are handled", () => seen.length === 3);
    answer();
    await until("all records are acknowledged", () => sidecar.items().length >= 2);
    consumers[0]!.stop();
    await done;
});

test("refused_settlement_is_counted_and_reported", async () => {
    const failed = [{ ack_id: "ack-1-1", reason: "EXPIRED", message: "too late" }];
    sidecar.onSettle = (_request, response) => answerJson(response, 200, { ...accepted, failed });
    const consumer = consumerOf();
    const { done } = collect(consumer);
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 1 }));
    await until("the failure is counted", () => consumer.failed === 1);
    assert.deepEqual(
        events.find(({ type }) => type === "settle_failed"),
        { type: "settle_failed", ackId: "ack-1-1", reason: "EXPIRED", message: "too late" },
    );
    consumer.stop();
    await done;
});

test("complete_batch_is_acknowledged_by_its_batch_id", async () => {
    const { done } = collect(consumerOf({ ackIntervalMs: 20 }));
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 1 }), recordFrame({ n: 2 }), recordFrame({ n: 3, batchId: "batch-2" }));
    await until("all records are acknowledged", () => sidecar.items().length === 2);
    assert.deepEqual(sidecar.items(), [
        { batch_id: "batch-1", outcome: "ack" },
        { ack_id: "ack-3-1", outcome: "ack" },
    ]);
    consumers[0]!.stop();
    await done;
});

test("batch_with_another_outcome_is_acknowledged_one_by_one", async () => {
    const consumer = consumerOf();
    const handle = (record: KinesisRecord) => void (record.sequenceNumber === "1001" && record.drop());
    const done = consumer.run(handle, { signals: false });
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 1 }), recordFrame({ n: 2 }), recordFrame({ n: 3, batchId: "batch-2" }));
    await until("all records are settled", () => sidecar.items().length === 3);
    assert.deepEqual(
        sidecar.items().map((item) => item.ack_id),
        ["ack-1-1", "ack-2-1", "ack-3-1"],
    );
    consumer.stop();
    await done;
});

test("event_between_records_of_a_batch_does_not_complete_the_batch", async () => {
    const { done } = collect(consumerOf());
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 1 }), recordFrame({ n: 2 }), heartbeatFrame);
    await until("both records are acknowledged", () => sidecar.items().length === 2);
    sidecar.write(recordFrame({ n: 3 }), recordFrame({ n: 4, batchId: "batch-2" }));
    await until("all records are acknowledged", () => sidecar.items().length >= 4);
    assert.deepEqual(sidecar.items().slice(0, 2), [
        { ack_id: "ack-1-1", outcome: "ack" },
        { ack_id: "ack-2-1", outcome: "ack" },
    ]);
    consumers[0]!.stop();
    await done;
});

test("barrier_between_records_of_a_batch_does_not_acknowledge_what_the_app_has", async () => {
    const batches = consumerOf().batches({ maxRecords: 3, maxWaitMs: 3_600_000 });
    const first = batches.next();
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 1 }), recordFrame({ n: 2 }), barrierFrame("9"), recordFrame({ n: 3 }));
    sidecar.write(recordFrame({ n: 4, batchId: "batch-2" }));
    const { records } = (await first).value!;
    records[0]!.ack();
    records[1]!.ack();
    await until("two records are acknowledged", () => sidecar.items().length === 2);
    records[2]!.ack();
    await until("the batch is acknowledged", () => sidecar.items().length === 3);
    assert.deepEqual(sidecar.items(), [
        { ack_id: "ack-1-1", outcome: "ack" },
        { ack_id: "ack-2-1", outcome: "ack" },
        { batch_id: "batch-1", outcome: "ack" },
    ]);
});

test("acknowledgements_leave_when_half_of_max_in_flight_waits", async () => {
    sidecar.onStream = (response) => sidecar.begin(response, sessionFrame({ maxInFlight: 4 }));
    const { done } = collect(consumerOf({ ackIntervalMs: 3_600_000 }));
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 1 }), recordFrame({ n: 2 }));
    await until("both acknowledgements have left", () => sidecar.items().length === 2);
    consumers[0]!.stop();
    await done;
});

test("acknowledgements_leave_when_half_of_max_in_flight_bytes_waits", async () => {
    void collect(consumerOf({ ackIntervalMs: 3_600_000 }));
    await until("the stream is open", () => sidecar.streams.length === 1);
    const data = `{"n":1,"text":"${"x".repeat(9 << 20)}"}`;
    sidecar.write(recordFrame({ n: 1, data }));
    await until("the acknowledgement has left", () => sidecar.items().length === 1);
});

test("acknowledgements_wait_for_others_though_another_outcome_leaves", async () => {
    const consumer = consumerOf({ ackIntervalMs: 3_600_000 });
    const handle = (record: KinesisRecord) => void (record.sequenceNumber !== "1001" && record.drop());
    const done = consumer.run(handle, { signals: false });
    await until("the stream is open", () => sidecar.streams.length === 1);
    for (const n of [1, 2, 3]) {
        sidecar.write(recordFrame({ n }));
        await until("the outcome has left", () => n === 1 || sidecar.items().length === n - 1);
    }
    consumer.stop();
    await done;
    assert.deepEqual(
        sidecar.items().map((item) => item.ack_id),
        ["ack-2-1", "ack-3-1", "ack-1-1"],
    );
});

test("request_has_1000_items_at_most", async () => {
    sidecar.onStream = (response) => sidecar.begin(response, sessionFrame({ maxInFlight: 10_000 }));
    const { seen, done } = collect(consumerOf({ ackIntervalMs: 3_600_000 }));
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(...Array.from({ length: 1001 }, (_, n) => recordFrame({ n })));
    await until("all records are handled", () => seen.length === 1001);
    consumers[0]!.stop();
    await done;
    assert.deepEqual(
        sidecar.settled.map(({ settlements }) => settlements.length),
        [1000, 1],
    );
});

test("first_outcome_of_a_record_counts", async () => {
    const consumer = consumerOf();
    const done = consumer.run(
        (record) => {
            record.drop();
            record.retry();
            throw new Error("too late");
        },
        { signals: false },
    );
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 1 }));
    await until("the record is settled", () => sidecar.items().length === 1);
    consumer.stop();
    await done;
    assert.deepEqual(sidecar.items(), [{ ack_id: "ack-1-1", outcome: "drop" }]);
});

/** Iterates, retries record 1 at its first delivery, and keeps the deliveries. */
function iterateWithRetry(consumer: Consumer): string[] {
    const seen: string[] = [];
    void (async () => {
        for await (const record of consumer) {
            seen.push(`${record.sequenceNumber}/${record.attempt}`);
            if (record.sequenceNumber === "1001" && record.attempt === 1) record.retry({ delayMs: 7, reason: "why" });
        }
    })();
    return seen;
}

test("accepted_retry_drops_later_records_that_came_before_the_barrier", async () => {
    let answer: () => void = () => {};
    sidecar.onSettle = (request, response) => {
        if (request.barrier) answer = () => answerJson(response, 200, accepted);
        else answerJson(response, 200, accepted);
    };
    const consumer = consumerOf();
    const seen = iterateWithRetry(consumer);
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 1 }), recordFrame({ n: 2 }), recordFrame({ n: 3 }));
    await until("the retry has left", () => sidecar.settled.length === 1);
    assert.deepEqual(sidecar.settled[0]!.settlements, [
        { ack_id: "ack-1-1", outcome: "retry", delay_ms: 7, reason: "why" },
    ]);
    sidecar.write(recordFrame({ n: 4 }), barrierFrame(sidecar.settled[0]!.barrier!), heartbeatFrame);
    await until("the heartbeat arrived", () => events.some(({ type }) => type === "heartbeat"));
    assert.deepEqual(seen, ["1001/1"]);
    answer();
    sidecar.write(...[1, 2, 3, 4].map((n) => recordFrame({ n, attempt: 2, batchId: "batch-2" })));
    await until("all records are handled", () => seen.length === 5);
    assert.deepEqual(seen, ["1001/1", "1001/2", "1002/2", "1003/2", "1004/2"]);
});

test("accepted_retry_waits_for_its_barrier", async () => {
    sidecar.onSettle = (_request, response) => answerJson(response, 200, accepted);
    const seen = iterateWithRetry(consumerOf());
    await until("the stream is open", () => sidecar.streams.length === 1);
    const other = { batchId: "batch-2", shardId: "shardId-000000000001" };
    sidecar.write(recordFrame({ n: 1 }), recordFrame({ n: 2 }), recordFrame({ n: 9, ...other }), heartbeatFrame);
    // Settle requests leave one at a time: the retry was answered before.
    await until("the record of the other shard is acknowledged", () => sidecar.items().at(-1)?.ack_id === "ack-9-1");
    sidecar.write(recordFrame({ n: 3, batchId: "batch-3" }), barrierFrame(sidecar.settled[0]!.barrier!));
    sidecar.write(...[1, 2, 3].map((n) => recordFrame({ n, attempt: 2, batchId: "batch-4" })));
    await until("all records are handled", () => seen.length === 5);
    assert.deepEqual(seen, ["1001/1", "1009/1", "1001/2", "1002/2", "1003/2"]);
});

test("refused_retry_hands_the_later_records_out", async () => {
    sidecar.onSettle = (request, response) => {
        const failed = request.barrier ? [{ ack_id: "ack-1-1", reason: "MALFORMED", message: "" }] : [];
        if (request.barrier) sidecar.write(barrierFrame(request.barrier));
        answerJson(response, 200, { ...accepted, failed });
    };
    const consumer = consumerOf();
    const seen = iterateWithRetry(consumer);
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 1 }), recordFrame({ n: 2 }), recordFrame({ n: 3 }));
    await until("all records are handled", () => seen.length === 3);
    assert.deepEqual(seen, ["1001/1", "1002/1", "1003/1"]);
    assert.equal(consumer.failed, 1);
});

test("retry_takes_back_what_is_later_by_number", async () => {
    const consumer = consumerOf();
    const seen: string[] = [];
    void (async () => {
        for await (const record of consumer) {
            seen.push(`${record.sequenceNumber}/${record.attempt}`);
            if (seen.length === 1) record.retry();
        }
    })();
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 8999 }), recordFrame({ n: 9000 }));
    await until("the retry has left", () => sidecar.settled.length === 1);
    sidecar.write(...[8999, 9000].map((n) => recordFrame({ n, attempt: 2, batchId: "batch-2" })));
    await until("all records are handled", () => seen.length === 3);
    assert.deepEqual(seen, ["9999/1", "9999/2", "10000/2"]);
});

test("retry_takes_no_earlier_redelivery_back", async () => {
    const batches = consumerOf().batches({ maxRecords: 2, maxWaitMs: 3_600_000 });
    const next = batches.next();
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 1 }), recordFrame({ n: 2 }));
    const [first, second] = (await next).value!.records;
    const barriers = () => events.filter(({ type }) => type === "barrier").length;
    first!.retry();
    await until("the first record is retried", () => barriers() === 1);
    sidecar.write(recordFrame({ n: 1, attempt: 2, batchId: "batch-2" }), heartbeatFrame);
    await until("the redelivery arrived", () => events.some(({ type }) => type === "heartbeat"));
    second!.retry();
    await until("the second record is retried", () => barriers() === 2);
    sidecar.write(recordFrame({ n: 2, attempt: 2, batchId: "batch-2" }));
    const again: KinesisRecord[] = [];
    void batches.next().then(({ value }) => again.push(...value!));
    await until("both are redelivered", () => again.length === 2);
    assert.deepEqual(
        again.map(({ sequenceNumber, attempt }) => `${sequenceNumber}/${attempt}`),
        ["1001/2", "1002/2"],
    );
});

for (const [what, ordering, redriven] of [
    ["with_the_ordering_none", "none", false],
    ["of_a_redriven_record", "shard", true],
] as const)
    test(`retry_${what}_holds_nothing`, async () => {
        sidecar.onSettle = () => {};
        const seen = iterateWithRetry(consumerOf({ ordering }));
        await until("the stream is open", () => sidecar.streams.length === 1);
        sidecar.write(recordFrame({ n: 1, redriven }), recordFrame({ n: 2 }));
        await until("the next record is handed out", () => seen.length === 2);
        assert.deepEqual(seen, ["1001/1", "1002/1"]);
        sidecar.onSettle = (_request, response) => answerJson(response, 200, accepted);
    });

test("retry_of_a_lane_holds_only_its_lane", async () => {
    let answer: () => void = () => {};
    sidecar.onSettle = (_request, response) => {
        const respond = () => answerJson(response, 200, accepted);
        if (sidecar.settled.length === 1) answer = respond;
        else respond();
    };
    const seen: string[] = [];
    const consumer = consumerOf();
    const done = consumer.run(
        (record) => {
            seen.push(`${record.sequenceNumber}/${record.attempt}`);
            if (record.sequenceNumber === "1001" && record.attempt === 1) throw new Error("fail");
        },
        { concurrency: 2, signals: false },
    );
    await until("the stream is open", () => sidecar.streams.length === 1);
    assert.match(sidecar.streamRequests[0]!.url!, /ordering=key&lanes=64/);
    sidecar.write(recordFrame({ n: 1, key: "a", lane: 5 }), recordFrame({ n: 2, key: "b", lane: 5 }));
    await until("the retry has left", () => sidecar.settled.length === 1);
    sidecar.write(recordFrame({ n: 3, key: "c" }));
    await until("the record of the other lane is handled", () => seen.length === 2);
    sidecar.write(barrierFrame(sidecar.settled[0]!.barrier!), heartbeatFrame);
    await until("the heartbeat arrived", () => events.some(({ type }) => type === "heartbeat"));
    assert.deepEqual(seen, ["1001/1", "1003/1"]);
    answer();
    const again = { attempt: 2, batchId: "batch-2", lane: 5 };
    sidecar.write(recordFrame({ n: 1, key: "a", ...again }), recordFrame({ n: 2, key: "b", ...again }));
    await until("all records are handled", () => seen.length === 4);
    assert.deepEqual(seen, ["1001/1", "1003/1", "1001/2", "1002/2"]);
    consumer.stop();
    await done;
});

test("other_shards_are_handed_out_while_a_retry_has_no_answer", async () => {
    sidecar.onSettle = () => {};
    const seen = iterateWithRetry(consumerOf());
    await until("the stream is open", () => sidecar.streams.length === 1);
    const other = { batchId: "batch-2", shardId: "shardId-000000000001" };
    sidecar.write(recordFrame({ n: 1 }), recordFrame({ n: 2 }), recordFrame({ n: 3, ...other }), heartbeatFrame);
    await until("the record of the other shard is handed out", () => seen.length === 2);
    assert.deepEqual(seen, ["1001/1", "1003/1"]);
    sidecar.onSettle = (_request, response) => answerJson(response, 200, accepted);
});

test("retry_of_a_batch_retries_all_its_records_backwards", async () => {
    const consumer = consumerOf();
    const batches = consumer.batches({ maxRecords: 3, maxWaitMs: 60_000 });
    const first = batches.next();
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(...[1, 2, 3].map((n) => recordFrame({ n })));
    const { value } = await first;
    assert.deepEqual(
        [...value!].map(({ sequenceNumber }) => sequenceNumber),
        sequenceNumbersOf([1, 2, 3]),
    );
    value!.records[1]!.drop();
    value!.retry({ reason: "why" });
    await until("the records are settled", () => sidecar.items().length === 3);
    assert.deepEqual(
        sidecar.items().map((item) => [item.ack_id, item.outcome]),
        [
            ["ack-2-1", "drop"],
            ["ack-3-1", "retry"],
            ["ack-1-1", "retry"],
        ],
    );
});

test("held_records_are_extended_until_max_processing_is_over", async () => {
    sidecar.onStream = (response) => sidecar.begin(response, sessionFrame({ ackDeadlineMs: 300 }));
    const consumer = consumerOf({ maxProcessingMs: 1000 });
    const iterator = consumer[Symbol.asyncIterator]();
    const first = iterator.next();
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 1 }), recordFrame({ n: 2 }));
    await first;
    const extensions = () => sidecar.settled.flatMap(({ settlements }) => settlements);
    await until("the batch is extended", () => extensions().length > 0);
    assert.deepEqual(extensions()[0], { batch_id: "batch-1", outcome: "extend", delay_ms: 300 });
    let before = -1;
    await until("there are no further extensions", async () => {
        const same = extensions().length === before;
        before = extensions().length;
        await new Promise((resolve) => setTimeout(resolve, 500));
        return same;
    });
});

test("redelivery_does_not_begin_max_processing_again", async () => {
    sidecar.onStream = (response) => sidecar.begin(response, sessionFrame({ ackDeadlineMs: 300 }));
    const maxProcessingMs = 1000;
    const consumer = consumerOf({ maxProcessingMs });
    const iterator = consumer[Symbol.asyncIterator]();
    const first = iterator.next();
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 1 }));
    await first;
    await new Promise((resolve) => setTimeout(resolve, maxProcessingMs));
    sidecar.write(recordFrame({ n: 1, attempt: 2, batchId: "batch-2" }), recordFrame({ n: 2, batchId: "batch-2" }));
    const extended = () => sidecar.settled.flatMap(({ settlements }) => settlements);
    await until("the other record is extended", () => extended().some((item) => item.ack_id === "ack-2-1"));
    assert.ok(!extended().some((item) => item.ack_id === "ack-1-2" || item.batch_id === "batch-2"));
});

test("persisted_ack_resolves_with_the_answer_for_its_shard", async () => {
    const position = { shard_id: "shardId-000000000000", epoch: 3, checkpoint: "1001" };
    sidecar.onSettle = (request, response) =>
        answerJson(response, 200, request.wait ? { ...accepted, positions: [position] } : accepted);
    const consumer = consumerOf();
    const iterator = consumer[Symbol.asyncIterator]();
    const first = iterator.next();
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 1 }), recordFrame({ n: 2 }));
    assert.equal(await (await first).value.ack({ persisted: true }), true);
    assert.equal(await (await iterator.next()).value.ack({ persisted: true }), false);
});
