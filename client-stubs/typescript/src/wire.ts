// SPDX-License-Identifier: Apache-2.0
// The protobuf stream: each message is a StreamEvent after its length as a varint.
// The decoder is written by hand, because it costs a fraction of a general one: it reads text that repeats from record
// to record only once, and leaves the other members where they are until the app asks for them.
import type { ControlEvent } from "./events.js";
import { KinesisRecord } from "./record.js";

type Writable<T> = { -readonly [K in keyof T]: T[K] };

/** Larger frames are taken for damage: the largest record of Kinesis has 10 MiB. */
const FRAME_BYTES_MAX = 32 * 1024 * 1024;
const VARINT_BYTES_MAX = 10;

const IDLE_REASONS = [
    "unspecified",
    "no_data",
    "no_leases",
    "flow_controlled",
    "paused",
    "draining",
    "throttled",
    "lane_blocked",
    "fenced",
    "no_sessions",
];
const SESSION_ENDS = ["unspecified", "taken_over", "expired", "drained", "closed"];

/** The bytes cannot be a stream of events. */
export class MalformedStream extends Error {
    override readonly name = "MalformedStream";
}

/** Receives what a stream carries, in its order. */
export interface StreamSink {
    onRecord(record: KinesisRecord, batchId: string): void;
    onEvent(event: ControlEvent): void;
}

/** Remembers the last value of a string field, because most fields repeat from record to record. */
class RepeatedText {
    private bytes = Buffer.alloc(0);
    private text = "";

    read(buffer: Buffer, start: number, end: number): string {
        if (!this.isSame(buffer, start, end)) {
            this.bytes = Buffer.from(buffer.subarray(start, end));
            this.text = this.bytes.toString();
        }
        return this.text;
    }

    /** From the end, where the values differ. A loop is quicker than `Buffer.compare` for so few bytes. */
    private isSame(buffer: Buffer, start: number, end: number): boolean {
        const { bytes } = this;
        let left = end - start;
        if (bytes.length !== left) return false;
        while (left > 0 && bytes[left - 1] === buffer[start + left - 1]) left--;
        return left === 0;
    }
}

/** Reads one message. `at` never passes `end`. */
class Fields {
    buffer: Buffer = Buffer.alloc(0);
    at = 0;
    end = 0;

    set(buffer: Buffer, at: number, end: number): void {
        this.buffer = buffer;
        this.at = at;
        this.end = end;
    }

    /** Integers above 2^53 lose their last digits; no field of the stream is that large. */
    varint(): number {
        let value = 0;
        let scale = 1;
        for (let count = 0; count < VARINT_BYTES_MAX && this.at < this.end; count++) {
            const byte = this.buffer[this.at++]!;
            value += (byte & 127) * scale;
            if (byte < 128) return value;
            scale *= 128;
        }
        throw new MalformedStream("a varint has no end");
    }

    /** Moves to the end of a length-delimited field and returns where it begins. */
    skipBytes(): number {
        const length = this.varint();
        const start = this.at;
        if (length > this.end - start) throw new MalformedStream("a field is longer than its message");
        this.at = start + length;
        return start;
    }

    /** Skips a field and returns the position of its value, with its length. */
    skipTo(tag: number): number {
        const { at } = this;
        this.skip(tag);
        return at;
    }

    skip(tag: number): void {
        const type = tag & 7;
        if (type === 0) this.varint();
        else if (type === 2) this.skipBytes();
        else if (type === 1 && this.end - this.at >= 8) this.at += 8;
        else if (type === 5 && this.end - this.at >= 4) this.at += 4;
        else throw new MalformedStream(`a field has the wire type ${type}`);
    }

    /** Reads all fields of a small message: numbers by field number, text by field number. */
    all(): { number(field: number): number; text(field: number): string } {
        const numbers = new Map<number, number>();
        const texts = new Map<number, string>();
        while (this.at < this.end) {
            const tag = this.varint();
            if ((tag & 7) === 0) numbers.set(tag >>> 3, this.varint());
            else if ((tag & 7) === 2) texts.set(tag >>> 3, this.buffer.toString("utf8", this.skipBytes(), this.at));
            else this.skip(tag);
        }
        return { number: (field) => numbers.get(field) ?? 0, text: (field) => texts.get(field) ?? "" };
    }
}

const LENGTH_DELIMITED = 2;
const tagOf = (field: number, type: number) => (field << 3) | type;
const EVENT_RECORD = tagOf(2, LENGTH_DELIMITED);

/** Takes bytes as they arrive and gives records and events to a sink. */
export class StreamReader {
    private parts: Buffer[] = [];
    private partBytes = 0;
    /** Length of the frame that `parts` begins, with its own length; unknown until its first bytes are there. */
    private wanted = 1;
    private readonly fields = new Fields();
    private readonly batchId = new RepeatedText();
    private readonly shardId = new RepeatedText();

    constructor(private readonly sink: StreamSink) {}

    push(chunk: Buffer): void {
        let rest = chunk;
        while (this.partBytes > 0) {
            const missing = this.wanted - this.partBytes;
            this.keep(rest.subarray(0, missing));
            if (rest.length < missing) return;
            rest = rest.subarray(missing);
            const whole = Buffer.concat(this.parts, this.partBytes);
            this.parts = [];
            this.partBytes = 0;
            this.readFrames(whole);
        }
        this.readFrames(rest);
    }

    private keep(part: Buffer): void {
        this.parts.push(part);
        this.partBytes += part.length;
    }

    /** Reads the whole frames of a buffer and keeps what remains. */
    private readFrames(buffer: Buffer): void {
        let at = 0;
        while (at < buffer.length) {
            const start = this.frameStart(buffer, at);
            if (this.wanted > buffer.length - at) {
                this.keep(buffer.subarray(at));
                return;
            }
            at += this.wanted;
            this.readEvent(buffer, start, at);
        }
    }

    /** Sets `wanted` to the size of the frame at `at`, as far as it is known, and returns where its message begins. */
    private frameStart(buffer: Buffer, at: number): number {
        let length = 0;
        let scale = 1;
        for (let next = at; next < buffer.length; next++) {
            const byte = buffer[next]!;
            length += (byte & 127) * scale;
            if (length > FRAME_BYTES_MAX) throw new MalformedStream(`a frame is larger than ${FRAME_BYTES_MAX} bytes`);
            if (byte < 128) {
                this.wanted = next + 1 - at + length;
                return next + 1;
            }
            scale *= 128;
            if (next - at >= 5) throw new MalformedStream("the length of a frame has no end");
        }
        this.wanted = buffer.length - at + 1;
        return buffer.length;
    }

    private readEvent(buffer: Buffer, start: number, end: number): void {
        const { fields } = this;
        fields.set(buffer, start, end);
        while (fields.at < end) {
            const tag = fields.varint();
            if ((tag & 7) !== LENGTH_DELIMITED) {
                fields.skip(tag);
                continue;
            }
            const from = fields.skipBytes();
            const to = fields.at;
            fields.set(buffer, from, to);
            if (tag === EVENT_RECORD) this.readRecord(fields);
            else this.sink.onEvent(controlEvent(tag >>> 3, fields));
            fields.set(buffer, to, end);
        }
    }

    private readRecord(fields: Fields): void {
        const { buffer } = fields;
        const record: Writable<KinesisRecord> = new KinesisRecord();
        let batchId = "";
        record.received = buffer;
        record.size = fields.end - fields.at;
        while (fields.at < fields.end) {
            const tag = fields.varint();
            switch (tag) {
                case 0x0a:
                    record.ackIdAt = fields.skipTo(tag);
                    break;
                case 0x12:
                    batchId = this.batchId.read(buffer, fields.skipBytes(), fields.at);
                    break;
                case 0x1a:
                    record.streamAt = fields.skipTo(tag);
                    break;
                case 0x22:
                    record.shardId = this.shardId.read(buffer, fields.skipBytes(), fields.at);
                    break;
                case 0x28:
                    record.epoch = fields.varint();
                    break;
                case 0x32:
                    record.sequenceNumberAt = fields.skipTo(tag);
                    break;
                case 0x38:
                    record.subSequenceNumber = fields.varint();
                    break;
                case 0x42:
                    record.partitionKeyAt = fields.skipTo(tag);
                    break;
                case 0x48:
                    record.arrivedAtAt = fields.skipTo(tag);
                    break;
                case 0x50:
                    record.attempt = fields.varint();
                    break;
                case 0x58:
                    record.aggregated = fields.varint() !== 0;
                    break;
                case 0x62:
                    record.dataAt = fields.skipTo(tag);
                    break;
                case 0x68:
                    record.redriven = fields.varint() !== 0;
                    break;
                case 0x70:
                    record.lane = fields.varint();
                    break;
                default:
                    fields.skip(tag);
            }
        }
        this.sink.onRecord(record as KinesisRecord, batchId);
    }
}

/** Event of a StreamEvent's member that is not a record. */
function controlEvent(field: number, fields: Fields): ControlEvent {
    const { number, text } = fields.all();
    switch (field) {
        case 1:
            return {
                type: "session",
                session: text(1),
                clientId: text(2),
                bootId: text(3),
                maxInFlight: number(4),
                maxInFlightBytes: number(5),
                ackDeadlineMs: number(6),
                heartbeatMs: number(7),
            };
        case 3:
            return {
                type: "heartbeat",
                inFlight: number(1),
                credit: number(2),
                idleReason: IDLE_REASONS[number(3)] ?? "unspecified",
            };
        case 4:
            return { type: "draining", deadline: new Date(number(1)) };
        case 5:
            return { type: "lease_returning", shardId: text(1), deadline: new Date(number(2)) };
        case 6:
            return { type: "lease_lost", shardId: text(1) };
        case 7:
            return { type: "ended", reason: SESSION_ENDS[number(1)] ?? "unspecified" };
        case 10:
            return {
                type: "record_too_large",
                shardId: text(1),
                epoch: number(2),
                sequenceNumber: text(3),
                subSequenceNumber: number(4),
                partitionKey: text(5),
                bytes: number(6),
                maxMessageBytes: number(7),
                maxMessageBytesWanted: number(8),
            };
        case 11:
            return { type: "barrier", barrier: text(1) };
        default:
            return { type: "unknown", field };
    }
}
