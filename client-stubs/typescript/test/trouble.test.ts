// SPDX-License-Identifier: Apache-2.0
// Trouble, against a scripted sidecar.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import {
    Consumer,
    SessionTakenOver,
    SidecarError,
    type ConsumerEvent,
    type ConsumerOptions,
    type KinesisRecord,
} from "kinesis-sidecar";
import {
    ScriptedSidecar,
    accepted,
    answerJson,
    barrierFrame,
    endedFrame,
    frame,
    heartbeatFrame,
    message,
    problem,
    recordFrame,
    sessionFrame,
    until,
} from "./scripted.js";

let sidecar: ScriptedSidecar;
let events: ConsumerEvent[];
let consumers: Consumer[];

beforeEach(async () => {
    sidecar = await new ScriptedSidecar().start();
    events = [];
    consumers = [];
});

afterEach(async () => {
    await Promise.all(consumers.map((consumer) => consumer.close()));
    sidecar.stop();
});

function consumerOf(options: ConsumerOptions = {}): Consumer {
    const onEvent = (event: ConsumerEvent) => void events.push(event);
    const consumer = new Consumer("me", { url: sidecar.url, ackIntervalMs: 5, onEvent, ...options });
    consumers.push(consumer);
    return consumer;
}

const disconnections = () => events.filter(({ type }) => type === "disconnected");
const sequenceNumbersOf = (numbers: number[]) => numbers.map((n) => String(1000 + n));

/** Runs a consumer that keeps the numbers of its records. */
function collect(consumer: Consumer): { seen: number[]; done: Promise<void> } {
    const seen: number[] = [];
    const done = consumer.run((record) => void seen.push(record.json<{ n: number }>().n), { signals: false });
    return { seen, done };
}

for (const status of [400, 401, 403, 404, 418]) {
    test(`stream_refused_with_${status}_ends_the_run_with_the_sentence`, async () => {
        sidecar.onStream = (response) => answerJson(response, status, problem(status));
        await assert.rejects(collect(consumerOf()).done, (error: SidecarError) => {
            assert.ok(error instanceof SidecarError);
            assert.equal(error.status, status);
            assert.equal(error.code, "some_code");
            assert.match(error.message, new RegExp(`a sentence about ${status}`));
            return true;
        });
        assert.equal(sidecar.streamRequests.length, 1);
    });
}

test("stream_refused_without_a_problem_document_is_an_error", async () => {
    sidecar.onStream = (response) => response.writeHead(400).end("<html>");
    await assert.rejects(collect(consumerOf()).done, SidecarError);
});

test("iteration_ends_with_the_refusal", async () => {
    sidecar.onStream = (response) => answerJson(response, 404, problem(404));
    const consumer = consumerOf();
    await assert.rejects(async () => {
        for await (const _ of consumer);
    }, SidecarError);
});

test("batches_end_with_the_refusal", async () => {
    sidecar.onStream = (response) => answerJson(response, 404, problem(404));
    const consumer = consumerOf();
    await assert.rejects(async () => {
        for await (const _ of consumer.batches());
    }, SidecarError);
});

for (const [status, type] of [
    [429, "x"],
    [500, "x"],
    [502, "x"],
    [503, "x"],
    [504, "x"],
    [409, "ordering-conflict"],
] as const) {
    test(`stream_refused_with_${status}_is_opened_again_after_retry_after`, async () => {
        sidecar.onStream = (response, count) =>
            count === 1
                ? answerJson(response, status, problem(status, type), { "retry-after": "1" })
                : sidecar.begin(response);
        const { done } = collect(consumerOf());
        await until("the stream is open", () => sidecar.streams.length === 1);
        const [lost] = disconnections();
        assert.ok(lost?.type === "disconnected");
        assert.ok(lost.retryInMs >= 1000);
        assert.match(lost.reason, new RegExp(`${status}: a sentence`));
        consumers[0]!.stop();
        await done;
    });
}

test("absent_sidecar_is_tried_again_with_growing_pauses", async () => {
    const probe = createServer();
    await new Promise<void>((resolve) => probe.listen(0, "127.0.0.1", resolve));
    const { port } = probe.address() as { port: number };
    await new Promise((resolve) => probe.close(resolve));
    const { done } = collect(consumerOf({ url: `http://127.0.0.1:${port}` }));
    await until("three tries have failed", () => disconnections().length >= 3);
    const pauses = disconnections().map((event) => (event.type === "disconnected" ? event.retryInMs : 0));
    for (const [at, pause] of pauses.slice(0, 3).entries())
        assert.ok(pause >= 50 * 2 ** at && pause <= 100 * 2 ** at, `pause ${at} of ${pause} ms`);
    consumers[0]!.stop();
    await done;
});

test("broken_frame_is_followed_by_a_new_connection", async () => {
    const { seen, done } = collect(consumerOf());
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 1 }));
    await until("the record is handled", () => seen.length === 1);
    sidecar.write(Buffer.from([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]));
    await until("the stream is open again", () => sidecar.streams.length === 2);
    sidecar.write(recordFrame({ n: 2 }));
    await until("the next record is handled", () => seen.length === 2);
    assert.match((disconnections()[0] as { reason: string }).reason, /frame is larger/);
    consumers[0]!.stop();
    await done;
});

test("dropped_connection_drops_the_records_that_no_handler_began", async () => {
    const begun: string[] = [];
    let finish: () => void = () => {};
    const done = consumerOf().run(
        async (record) => {
            begun.push(`${record.sequenceNumber}/${record.attempt}`);
            if (begun.length === 1) await new Promise<void>((resolve) => (finish = resolve));
        },
        { signals: false },
    );
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 1 }), recordFrame({ n: 2 }));
    await until("the first handler runs", () => begun.length === 1);
    sidecar.streams[0]!.destroy();
    await until("the stream is open again", () => sidecar.streams.length === 2);
    sidecar.write(
        recordFrame({ n: 1, attempt: 2, batchId: "batch-2" }),
        recordFrame({ n: 2, attempt: 2, batchId: "batch-2" }),
    );
    sidecar.write(heartbeatFrame);
    await until("the heartbeat arrived", () => events.some(({ type }) => type === "heartbeat"));
    finish();
    await until("both records are acknowledged", () => sidecar.items().length === 1 || sidecar.items().length === 2);
    consumers[0]!.stop();
    await done;
    assert.deepEqual(begun, ["1001/1", "1002/2"]);
    const ids = sidecar.items().map((item) => item.batch_id ?? item.ack_id);
    assert.ok(ids.includes("batch-2") || (ids.includes("ack-1-2") && ids.includes("ack-2-2")), `settled: ${ids}`);
});

/** Runs a handler of record 1 that ends when the test says so, and has further sessions begin meanwhile. */
async function handleAcrossSessions(sessions: number): Promise<{ begun: string[]; finish: () => void }> {
    const begun: string[] = [];
    const handler = { begun, finish: () => {} };
    const handle = async ({ sequenceNumber, attempt }: KinesisRecord) => {
        begun.push(`${sequenceNumber}/${attempt}`);
        if (begun.length === 1) await new Promise<void>((resolve) => (handler.finish = resolve));
    };
    void consumerOf().run(handle, { concurrency: 4, signals: false });
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 1 }));
    await until("the handler runs", () => begun.length === 1);
    for (let session = 2; session <= sessions; session++) {
        sidecar.streams.at(-1)!.destroy();
        await until("the next session began", () => events.filter(({ type }) => type === "session").length === session);
    }
    return handler;
}

test("outcome_of_a_record_that_is_redelivered_later_settles_the_redelivery", async () => {
    const { begun, finish } = await handleAcrossSessions(2);
    finish();
    sidecar.write(recordFrame({ n: 1, attempt: 2 }), recordFrame({ n: 2 }));
    await until("both records are acknowledged", () => sidecar.items().length === 2);
    assert.deepEqual(
        sidecar.items().map((item) => item.ack_id),
        ["ack-1-2", "ack-2-1"],
    );
    assert.deepEqual(begun, ["1001/1", "1002/1"]);
    assert.equal(consumers[0]!.stale, 0);
});

test("record_of_the_app_is_not_handed_out_again_after_two_lost_connections", async () => {
    const { begun, finish } = await handleAcrossSessions(3);
    sidecar.write(recordFrame({ n: 1, attempt: 2 }), recordFrame({ n: 2 }));
    sidecar.write(heartbeatFrame);
    await until("the heartbeat arrived", () => events.some(({ type }) => type === "heartbeat"));
    assert.deepEqual(begun, ["1001/1"]);
    finish();
    await until("both records are acknowledged", () => sidecar.items().length === 2);
    assert.deepEqual(begun, ["1001/1", "1002/1"]);
});

test("outcome_without_an_answer_settles_the_redelivery", async () => {
    sidecar.onSettle = (_request, response) => answerJson(response, 503, problem(503));
    const seen: number[] = [];
    const done = consumerOf().run(
        (record) => {
            seen.push(record.json<{ n: number }>().n);
            record.drop();
        },
        { signals: false },
    );
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 1 }));
    await until("the settlement was refused for now", () => sidecar.settled.length === 1);
    sidecar.streams[0]!.destroy();
    await until("the stream is open again", () => sidecar.streams.length === 2);
    sidecar.onSettle = (_request, response) => answerJson(response, 200, accepted);
    sidecar.write(recordFrame({ n: 1, attempt: 2 }));
    const dropped = { ack_id: "ack-1-2", outcome: "drop" };
    await until("the redelivery is dropped", () => sidecar.items().some((item) => item.ack_id === dropped.ack_id));
    assert.deepEqual(sidecar.items().at(-1), dropped);
    assert.deepEqual(seen, [1]);
    consumers[0]!.stop();
    await done;
});

test("silence_of_three_heartbeats_is_followed_by_a_new_connection", async () => {
    sidecar.onStream = (response) => sidecar.begin(response, sessionFrame({ heartbeatMs: 100 }));
    const { done } = collect(consumerOf());
    await until("the stream is open again", () => sidecar.streams.length === 2);
    assert.match((disconnections()[0] as { reason: string }).reason, /no heartbeat for 1300 ms/);
    consumers[0]!.stop();
    await done;
});

test("unknown_event_is_reported_and_reading_goes_on", async () => {
    const { seen, done } = collect(consumerOf());
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(frame(77, message([1, "new"])), recordFrame({ n: 1 }));
    await until("the record is handled", () => seen.length === 1);
    assert.ok(events.some((event) => event.type === "unknown" && event.field === 77));
    consumers[0]!.stop();
    await done;
});

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

test("take_over_ends_the_run_and_the_package_does_not_connect_again", async () => {
    const { done } = collect(consumerOf());
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.streams[0]!.end(endedFrame(1));
    await assert.rejects(done, SessionTakenOver);
    assert.equal(sidecar.streamRequests.length, 1);
    assert.equal(sidecar.deleted, 0);
});

test("drained_session_is_followed_by_a_new_connection", async () => {
    const { done } = collect(consumerOf());
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.streams[0]!.end(endedFrame(3));
    await until("the stream is open again", () => sidecar.streams.length === 2);
    consumers[0]!.stop();
    await done;
    assert.equal(sidecar.deleted, 1);
});

test("rotated_token_file_is_read_for_each_request", async () => {
    const folder = mkdtempSync(join(tmpdir(), "kinesis-sidecar-"));
    try {
        const tokenFile = join(folder, "token");
        writeFileSync(tokenFile, "first\n");
        const { done } = collect(consumerOf({ tokenFile }));
        await until("the stream is open", () => sidecar.streams.length === 1);
        assert.equal(sidecar.streamRequests[0]!.headers.authorization, "Bearer first");
        writeFileSync(tokenFile, "second\n");
        sidecar.write(recordFrame({ n: 1 }));
        await until("the record is acknowledged", () => sidecar.settled.length === 1);
        assert.deepEqual(sidecar.settleTokens, ["Bearer second"]);
        consumers[0]!.stop();
        await done;
    } finally {
        rmSync(folder, { recursive: true });
    }
});

test("data_that_is_not_json_fails_the_handler_and_is_retried", async () => {
    const { done } = collect(consumerOf());
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 1, data: "not JSON" }));
    await until("the record is settled", () => sidecar.items().length === 1);
    const [item] = sidecar.items();
    assert.equal(item!.outcome, "retry");
    assert.match(item!.reason!, /JSON/);
    consumers[0]!.stop();
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

test("acknowledgements_leave_when_half_of_max_in_flight_waits", async () => {
    sidecar.onStream = (response) => sidecar.begin(response, sessionFrame({ maxInFlight: 4 }));
    const { done } = collect(consumerOf({ ackIntervalMs: 3_600_000 }));
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 1 }), recordFrame({ n: 2 }));
    await until("both acknowledgements have left", () => sidecar.items().length === 2);
    consumers[0]!.stop();
    await done;
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
    const barrier = barrierFrame(sidecar.settled[0]!.barrier!);
    sidecar.write(recordFrame({ n: 4 }), barrier);
    sidecar.write(...[1, 2, 3, 4].map((n) => recordFrame({ n, attempt: 2, batchId: "batch-2" })), heartbeatFrame);
    await until("the heartbeat arrived", () => events.some(({ type }) => type === "heartbeat"));
    assert.deepEqual(seen, ["1001/1"]);
    answer();
    await until("all records are handled", () => seen.length === 5);
    assert.deepEqual(seen, ["1001/1", "1001/2", "1002/2", "1003/2", "1004/2"]);
});

test("refused_retry_hands_the_later_records_out", async () => {
    sidecar.onSettle = (request, response) => {
        const failed = request.barrier ? [{ ack_id: "ack-1-1", reason: "EXPIRED", message: "" }] : [];
        if (request.barrier) sidecar.write(barrierFrame(request.barrier));
        answerJson(response, 200, { ...accepted, failed });
    };
    const consumer = consumerOf();
    const seen = iterateWithRetry(consumer);
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 1 }), recordFrame({ n: 2 }), recordFrame({ n: 3 }));
    await until("all records are handled", () => seen.length === 3);
    assert.deepEqual(seen, ["1001/1", "1002/1", "1003/1"]);
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
    const again = { attempt: 2, batchId: "batch-2", lane: 5 };
    sidecar.write(
        barrierFrame(sidecar.settled[0]!.barrier!),
        recordFrame({ n: 1, key: "a", ...again }),
        recordFrame({ n: 2, key: "b", ...again }),
        heartbeatFrame,
    );
    await until("the heartbeat arrived", () => events.some(({ type }) => type === "heartbeat"));
    assert.deepEqual(seen, ["1001/1", "1003/1"]);
    answer();
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

test("lost_lease_drops_the_records_of_its_shard", async () => {
    const consumer = consumerOf();
    const iterator = consumer[Symbol.asyncIterator]();
    const first = iterator.next();
    await until("the stream is open", () => sidecar.streams.length === 1);
    const other = { batchId: "batch-2", shardId: "shardId-000000000001" };
    sidecar.write(recordFrame({ n: 1 }), recordFrame({ n: 2 }), recordFrame({ n: 3, ...other }));
    assert.equal((await first).value.sequenceNumber, "1001");
    sidecar.write(frame(6, message([1, "shardId-000000000000"])));
    await until("the lease is lost", () => events.some(({ type }) => type === "lease_lost"));
    assert.equal((await iterator.next()).value.sequenceNumber, "1003");
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

test("closed_consumer_deletes_its_session_and_cannot_be_used", async () => {
    const consumer = consumerOf();
    const { done } = collect(consumer);
    await until("the stream is open", () => sidecar.streams.length === 1);
    consumer.stop();
    await done;
    assert.equal(sidecar.deleted, 1);
    await assert.rejects(
        consumer.run(() => {}),
        /the consumer is closed/,
    );
});

test("error_of_on_event_ends_the_run", async () => {
    const onEvent = () => {
        throw new Error("broken callback");
    };
    await assert.rejects(collect(consumerOf({ onEvent })).done, /broken callback/);
});

test("abort_signal_stops_the_run", async () => {
    const stop = new AbortController();
    const done = consumerOf().run(() => {}, { signals: false, signal: stop.signal });
    await until("the stream is open", () => sidecar.streams.length === 1);
    stop.abort();
    await done;
});

test("loop_that_never_waits_lets_timers_run", async () => {
    const consumer = consumerOf();
    let ticked = false;
    const done = (async () => {
        for await (const _ of consumer) {
            setTimeout(() => (ticked = true));
            const end = performance.now() + 30;
            while (performance.now() < end);
            if (ticked) break;
        }
    })();
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(...Array.from({ length: 100 }, (_, n) => recordFrame({ n })));
    await done;
    assert.ok(ticked);
});

test("wrong_address_is_an_error_with_what_is_allowed", () => {
    assert.throws(() => new Consumer("me", { url: "https://localhost" }), /must be http:\/\/HOST:PORT or unix:\/PATH/);
});

test("stream_request_has_the_options", async () => {
    const options = { maxInFlight: 7, maxInFlightBytes: 8, ackDeadlineMs: 900, shards: ["a", "b"], subscription: "s" };
    const { done } = collect(consumerOf(options));
    await until("the stream is open", () => sidecar.streams.length === 1);
    assert.deepEqual(Object.fromEntries(new URL(sidecar.streamRequests[0]!.url!, sidecar.url).searchParams), {
        client_id: "me",
        max_in_flight: "7",
        max_in_flight_bytes: "8",
        ack_deadline_ms: "900",
        ordering: "shard",
        shards: "a,b",
        subscription: "s",
    });
    consumers[0]!.stop();
    await done;
});
