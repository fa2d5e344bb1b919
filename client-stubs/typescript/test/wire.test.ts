// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import type { ControlEvent, KinesisRecord } from "kinesis-sidecar";
// The decoder is not exported by the package.
import { MalformedStream, StreamReader } from "../esm/wire.js";
import { frame, heartbeatFrame, message, recordFrame, sessionFrame } from "./scripted.js";
import { golden } from "./golden.js";

function read(...chunks: Buffer[]): { records: KinesisRecord[]; batchIds: string[]; events: ControlEvent[] } {
    const seen = { records: [] as KinesisRecord[], batchIds: [] as string[], events: [] as ControlEvent[] };
    const reader = new StreamReader({
        onRecord(record, batchId) {
            seen.records.push(record);
            seen.batchIds.push(batchId);
        },
        onEvent: (event) => void seen.events.push(event),
    });
    for (const chunk of chunks) reader.push(chunk);
    return seen;
}

const SEQUENCE = "49590338271490256608559692538361571095921575989136588898";

test("golden_record_is_read", () => {
    const { records, batchIds } = read(golden("record"));
    const [record] = records;
    assert.equal(records.length, 1);
    assert.deepEqual(batchIds, ["batch"]);
    assert.equal(record!.stream, "the-stream");
    assert.equal(record!.shardId, "shardId-000000000003");
    assert.equal(record!.epoch, 9);
    assert.equal(record!.sequenceNumber, SEQUENCE);
    assert.equal(record!.subSequenceNumber, 0);
    assert.equal(record!.partitionKey, "k\u00e9y");
    assert.equal(record!.arrivedAt.getTime(), 1763685600123);
    assert.equal(record!.attempt, 4);
    assert.equal(record!.aggregated, false);
    assert.equal(record!.redriven, false);
    assert.deepEqual(record!.data, Buffer.from(Array.from({ length: 256 }, (_, n) => n)));
});

test("golden_record_of_an_aggregate_is_read", () => {
    const [record] = read(golden("record_part")).records;
    assert.equal(record!.subSequenceNumber, 17);
    assert.equal(record!.aggregated, true);
    assert.equal(record!.data.length, 0);
});

test("golden_redriven_record_is_read", () => {
    const [record] = read(golden("record_redriven")).records;
    assert.equal(record!.redriven, true);
    assert.equal(record!.epoch, 0);
});

test("lane_of_a_record_is_read", () => {
    const { records } = read(recordFrame({ n: 1 }), recordFrame({ n: 2, lane: 63 }));
    assert.deepEqual(
        records.map((record) => (record as unknown as { lane: number }).lane),
        [0, 63],
    );
});

test("record_is_printed_with_its_members", () => {
    const [record] = read(recordFrame({ n: 1, key: "some key" })).records;
    assert.match(inspect(record), /partitionKey: 'some key'/);
});

test("record_has_its_members_as_json", () => {
    const [record] = read(recordFrame({ n: 1, key: "some key", data: "abc" })).records;
    const expected = {
        stream: "stream",
        shardId: "shardId-000000000000",
        sequenceNumber: "1001",
        subSequenceNumber: 0,
        epoch: 3,
        attempt: 1,
        partitionKey: "some key",
        arrivedAt: "2025-11-21T00:40:00.123Z",
        aggregated: false,
        redriven: false,
        data: "YWJj",
    };
    assert.deepEqual(record!.toJSON(), expected);
    assert.deepEqual(JSON.parse(JSON.stringify({ record })), { record: expected });
});

test("golden_events_are_read", () => {
    const names = ["session", "heartbeat", "draining", "lease_returning", "lease_lost", "ended", "record_too_large"];
    const { events } = read(...names.map(golden));
    assert.deepEqual(
        events.map(({ type }) => type),
        names,
    );
    const [session, , draining, returning, , , tooLarge] = events as any[];
    assert.equal(session.clientId, "me");
    assert.equal(session.maxInFlight, 1000);
    assert.ok(session.heartbeatMs > 0 && session.ackDeadlineMs > 0 && session.maxInFlightBytes > 0);
    assert.ok(draining.deadline instanceof Date && returning.deadline instanceof Date);
    assert.equal(tooLarge.bytes, 5001);
    assert.equal(tooLarge.maxMessageBytesWanted, 7049);
});

test("stream_in_single_bytes_is_read", () => {
    const whole = Buffer.concat([sessionFrame(), recordFrame({ n: 1 }), recordFrame({ n: 2, data: "x".repeat(300) })]);
    const { records, events } = read(...Array.from(whole, (byte) => Buffer.from([byte])));
    assert.equal(events.length, 1);
    assert.deepEqual(
        records.map(({ sequenceNumber }) => sequenceNumber),
        ["1001", "1002"],
    );
    assert.equal(records[1]!.data.toString(), "x".repeat(300));
});

test("record_of_10_mib_in_parts_is_read", () => {
    const data = Buffer.alloc(10 << 20, 7);
    const whole = Buffer.concat([recordFrame({ n: 1, data }), heartbeatFrame]);
    const parts = Array.from({ length: Math.ceil(whole.length / 65536) }, (_, at) =>
        whole.subarray(at * 65536, (at + 1) * 65536),
    );
    const { records, events } = read(...parts);
    assert.ok(records[0]!.data.equals(data));
    assert.equal(events[0]!.type, "heartbeat");
});

test("unknown_event_is_reported_with_its_number", () => {
    assert.deepEqual(read(frame(99, message([1, "new"]))).events, [{ type: "unknown", field: 99 }]);
});

test("unknown_member_of_a_record_is_skipped", () => {
    const known = recordFrame({ n: 1 });
    const content = message([99, "new"], [98, 5], [1, "id"], [6, "7"]);
    assert.equal(read(frame(2, content), known).records[0]!.sequenceNumber, "7");
});

test("frame_beyond_the_limit_is_malformed", () => {
    assert.throws(() => read(Buffer.from([0xff, 0xff, 0xff, 0xff, 0x7f])), MalformedStream);
});

test("field_longer_than_its_message_is_malformed", () => {
    assert.throws(() => read(Buffer.from([3, 0x12, 50, 0x0a])), MalformedStream);
});

test("message_cut_at_any_byte_is_malformed_or_shorter", () => {
    const content = message([1, "id"], [5, 300], [12, "data"]);
    for (let length = 0; length < content.length; length++) {
        try {
            assert.equal(read(frame(2, content.subarray(0, length))).records.length, 1);
        } catch (error) {
            assert.ok(error instanceof MalformedStream);
        }
    }
});
