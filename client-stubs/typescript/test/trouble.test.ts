// SPDX-License-Identifier: Apache-2.0
// Trouble, against a scripted sidecar.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Consumer, SessionTakenOver, SidecarError, type KinesisRecord } from "kinesis-sidecar";
import { collect, consumerOf, consumers, events, sidecar } from "./harness.js";
import {
    accepted,
    answerJson,
    endedFrame,
    frame,
    heartbeatFrame,
    leaseLostFrame,
    message,
    problem,
    recordFrame,
    sessionFrame,
    until,
} from "./scripted.js";

const sessions = () => events.filter(({ type }) => type === "session").length;
const disconnections = () => events.filter(({ type }) => type === "disconnected");

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
async function handleAcrossSessions(count: number): Promise<{ begun: string[]; finish: () => void }> {
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
    for (let session = 2; session <= count; session++) {
        sidecar.streams.at(-1)!.destroy();
        await until("the next session began", () => sessions() === session);
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

for (const redelivered of [true, false])
    for (const outcome of ["ack", "drop"] as const)
        test(`${outcome}_without_an_answer_settles_the_redelivery_after_a_${redelivered ? "second" : "silent"}_session`, async () => {
            sidecar.onSettle = (_request, response) => answerJson(response, 503, problem(503));
            const seen: number[] = [];
            void consumerOf().run(
                (record) => {
                    seen.push(record.json<{ n: number }>().n);
                    if (outcome === "ack") record.ack();
                    else record.drop();
                },
                { signals: false },
            );
            await until("the stream is open", () => sidecar.streams.length === 1);
            sidecar.write(recordFrame({ n: 1 }));
            await until("the settlement was refused for now", () => sidecar.settled.length > 0);
            sidecar.streams[0]!.destroy();
            await until("the second session began", () => sessions() === 2);
            if (redelivered) {
                sidecar.write(recordFrame({ n: 1, attempt: 2, batchId: "batch-2" }));
                await until("it has no answer again", () => sidecar.items().some((item) => item.ack_id === "ack-1-2"));
            }
            sidecar.streams[1]!.destroy();
            await until("the third session began", () => sessions() === 3);
            sidecar.onSettle = (_request, response) => answerJson(response, 200, accepted);
            const third = { batchId: "batch-3" };
            sidecar.write(recordFrame({ n: 1, attempt: 3, ...third }), recordFrame({ n: 2, ...third }));
            const expected = { ack_id: "ack-1-3", outcome };
            await until("it is settled", () => sidecar.items().some((item) => item.ack_id === expected.ack_id));
            await until("the next record is handled", () => seen.length > 1);
            assert.deepEqual(seen, [1, 2]);
            assert.deepEqual(
                sidecar.items().find((item) => item.ack_id === expected.ack_id),
                expected,
            );
        });

test("record_that_ends_in_a_silent_session_is_settled_in_the_next", async () => {
    const { begun, finish } = await handleAcrossSessions(2);
    finish();
    sidecar.streams[1]!.destroy();
    await until("the third session began", () => sessions() === 3);
    sidecar.write(recordFrame({ n: 1, attempt: 2 }), recordFrame({ n: 2 }));
    await until("both records are acknowledged", () => sidecar.items().length === 2);
    assert.deepEqual(begun, ["1001/1", "1002/1"]);
    assert.equal(consumers[0]!.stale, 0);
});

test("outcome_is_forgotten_if_the_sidecar_goes_on_without_its_record", async () => {
    sidecar.onSettle = (_request, response) => answerJson(response, 503, problem(503));
    const { seen } = collect(consumerOf());
    const next = async (n: number) => {
        await until("the stream is open", () => sessions() === n);
        sidecar.write(recordFrame({ n, batchId: `batch-${n}` }));
        await until("the record is handled", () => seen.length === n);
        await until("it has no answer", () => sidecar.items().some((item) => item.ack_id === `ack-${n}-1`));
        sidecar.streams.at(-1)!.destroy();
    };
    await next(1);
    await next(2);
    await until("the third session began", () => sessions() === 3);
    sidecar.write(recordFrame({ n: 1, attempt: 2, batchId: "batch-3" }));
    await until("the record is handled again", () => seen.length === 3);
    assert.deepEqual(seen, [1, 2, 1]);
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

test("redriven_record_is_handed_out_though_its_first_outcome_was_not_confirmed", async () => {
    sidecar.onSettle = (_request, response) => answerJson(response, 503, problem(503));
    const seen: boolean[] = [];
    void consumerOf().run(
        (record) => {
            seen.push(record.redriven);
            record.deadLetter();
        },
        { signals: false },
    );
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 1 }));
    await until("the settlement was refused for now", () => sidecar.settled.length > 0);
    sidecar.streams[0]!.destroy();
    await until("the second session began", () => sessions() === 2);
    sidecar.write(recordFrame({ n: 1, batchId: "batch-2", redriven: true }));
    await until("the redriven record is handled", () => seen.length === 2);
    assert.deepEqual(seen, [false, true]);
});

test("lost_lease_drops_the_records_of_its_shard", async () => {
    const consumer = consumerOf();
    const iterator = consumer[Symbol.asyncIterator]();
    const first = iterator.next();
    await until("the stream is open", () => sidecar.streams.length === 1);
    const other = { batchId: "batch-2", shardId: "shardId-000000000001" };
    sidecar.write(recordFrame({ n: 1 }), recordFrame({ n: 2 }), recordFrame({ n: 3, ...other }));
    assert.equal((await first).value.sequenceNumber, "1001");
    sidecar.write(leaseLostFrame);
    await until("the lease is lost", () => events.some(({ type }) => type === "lease_lost"));
    assert.equal((await iterator.next()).value.sequenceNumber, "1003");
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

test("stop_waits_for_a_handler_though_other_places_are_free", async () => {
    let finish: () => void = () => {};
    const handle = () => new Promise<void>((resolve) => (finish = resolve));
    const done = consumerOf().run(handle, { concurrency: 2, signals: false });
    await until("the stream is open", () => sidecar.streams.length === 1);
    const idle = finish;
    sidecar.write(recordFrame({ n: 1 }));
    await until("the handler runs", () => finish !== idle);
    consumers[0]!.stop();
    await Promise.race([done, new Promise((resolve) => setTimeout(resolve, 200))]);
    assert.equal(sidecar.deleted, 0);
    finish();
    await done;
    assert.equal(sidecar.items().length, 1);
    assert.equal(sidecar.deleted, 1);
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

for (const [what, options, wanted] of [
    ["a_share", { share: "0.05", salt: "v2" }, { share: "0.05", salt: "v2", ordering: "key", lanes: "64" }],
    ["lanes", { share: "0.5", ordering: "key", lanes: 8 }, { share: "0.5", ordering: "key", lanes: "8" }],
    ["a_filter", { filter: '{"data":{"a":["+ &"]}}' }, { filter: '{"data":{"a":["+ &"]}}', ordering: "shard" }],
    ["an_object", { filter: { data: { a: ["\u00e4"] } } }, { filter: '{"data":{"a":["\u00e4"]}}', ordering: "shard" }],
    ["nothing", {}, { ordering: "shard" }],
] as const) {
    test(`stream_is_asked_for_the_records_that_the_consumer_wants_with_${what}`, async () => {
        const { done } = collect(consumerOf(options));
        await until("the stream is open", () => sidecar.streams.length === 1);
        const { search, searchParams } = new URL(sidecar.streamRequests[0]!.url!, sidecar.url);
        assert.deepEqual(Object.fromEntries(searchParams), { client_id: "me", ...wanted });
        assert.doesNotMatch(search, /\+/); // A plus sign is not a space in every reader of queries.
        consumers[0]!.stop();
        await done;
    });
}
