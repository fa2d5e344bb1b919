// SPDX-License-Identifier: Apache-2.0
import { inspect } from "node:util";
import type { Scope } from "./inbox.js";
import { bytesAt, textAt, varintAt } from "./protobuf.js";

/** Outcome of a record. It is final. */
export type Outcome = "ack" | "retry" | "dead_letter" | "drop";

/** Options of a retry. */
export interface RetryOptions {
    /** Milliseconds before the redelivery, up to 12 h. Default: the back-off of the sidecar. */
    delayMs?: number;
    /** Reason for people. A dead letter keeps up to 1000 bytes of it. */
    reason?: string;
}

/** The members of a record as JSON. */
export interface RecordObject {
    stream: string;
    shardId: string;
    sequenceNumber: string;
    subSequenceNumber: number;
    epoch: number;
    attempt: number;
    partitionKey: string;
    /** ISO 8601. */
    arrivedAt: string;
    aggregated: boolean;
    redriven: boolean;
    /** Base64. */
    data: string;
}

/** @internal What takes the outcomes of records: a consumer, or a test. */
export interface Settler {
    /** The record has an outcome. */
    settle(record: KinesisRecord): void;
    extend(record: KinesisRecord, durationMs: number): void;
    /** The app left the loop that has the record. Returns false if the record is redelivered. */
    putBack(record: KinesisRecord): boolean;
    /** Resolves when the checkpoint covers the acknowledged record, or when the sidecar waited long enough for it. */
    persisted(record: KinesisRecord): Promise<boolean>;
}

/** @internal The records that share a batch id of the sidecar. */
export interface Group {
    readonly settler: Settler;
}

const EMPTY = Buffer.alloc(0);
const NO_OPTIONS: RetryOptions = {};

/**
 * One record, delivered once. Most members are read from the received message when the app asks for them: records that
 * only pass through cost no text and no view.
 */
export class KinesisRecord {
    readonly shardId: string = "";
    /** Place in a KPL aggregate, from 0. */
    readonly subSequenceNumber: number = 0;
    /** Lease epoch: one span in which a worker holds the shard. */
    readonly epoch: number = 0;
    /** Number of the delivery, from 1. */
    readonly attempt: number = 1;
    /** True for a KPL aggregate that could not be taken apart. */
    readonly aggregated: boolean = false;
    /** True for a dead letter that is delivered again. */
    readonly redriven: boolean = false;

    /** @internal Lane of the shard, with the ordering `key`. */
    readonly lane: number = 0;
    /** @internal Buffer that has the message. */
    readonly received: Buffer = EMPTY;
    /** @internal Position of the length of the member in `received`; 0: the member is absent. */
    readonly ackIdAt: number = 0;
    /** @internal */
    readonly streamAt: number = 0;
    /** @internal */
    readonly sequenceNumberAt: number = 0;
    /** @internal */
    readonly partitionKeyAt: number = 0;
    /** @internal */
    readonly dataAt: number = 0;
    /** @internal */
    readonly arrivedAtAt: number = 0;
    /** @internal Bytes of the message. */
    readonly size: number = 0;

    /** @internal */
    group!: Group;
    /** @internal Undefined if the record has no order to keep. */
    scope: Scope | undefined = undefined;
    /** @internal The next record in a queue of the inbox. */
    next: KinesisRecord | undefined = undefined;
    /** @internal */
    outcome: Outcome | undefined = undefined;
    /** @internal Delay and reason of the outcome. */
    options: RetryOptions = NO_OPTIONS;
    /** @internal The redelivery that the outcome settles, if the app has an earlier delivery. */
    redelivery: KinesisRecord | undefined = undefined;
    /** @internal When the first delivery that the app has arrived; undefined: when the group did. */
    since: number | undefined = undefined;
    /** @internal Last barrier of the stream before the record. */
    barrier = 0;
    /** @internal True from when the app has the record. */
    taken = false;
    /** @internal True if the package gave the record up before the app had it: it is redelivered. */
    dropped = false;
    /** @internal True if the outcome is in a settle request. */
    sent = false;
    private view: Buffer | undefined = undefined;

    /**
     * Bytes as they were put: a view of the network buffer, which stays in memory as long as the record. Copy what the
     * app keeps for long, for example with `Buffer.from(record.data)`.
     */
    get data(): Buffer {
        return (this.view ??= bytesAt(this.received, this.dataAt));
    }

    get partitionKey(): string {
        return textAt(this.received, this.partitionKeyAt);
    }

    /** Name or ARN of the stream, as the sidecar is configured. */
    get stream(): string {
        return textAt(this.received, this.streamAt);
    }

    /** Decimal number; compare it as `BigInt`. */
    get sequenceNumber(): string {
        return textAt(this.received, this.sequenceNumberAt);
    }

    /** Approximate time of arrival at the stream. */
    get arrivedAt(): Date {
        return new Date(varintAt(this.received, this.arrivedAtAt));
    }

    /** @internal Settles the last delivery of the record. */
    get ackId(): string {
        const { received, ackIdAt } = this.redelivery ?? this;
        return textAt(received, ackIdAt);
    }

    /** Parses `data` as JSON. Throws `SyntaxError` for data that is not JSON. */
    json<T = unknown>(): T {
        return JSON.parse(this.data.toString()) as T;
    }

    /** Acknowledges the record. */
    ack(): void;
    /** Acknowledges the record, and resolves with whether the checkpoint in the lease table covers it. */
    ack(options: { persisted: true }): Promise<boolean>;
    ack(options?: { persisted: true }): void | Promise<boolean> {
        this.settle("ack", NO_OPTIONS);
        return options?.persisted ? this.group.settler.persisted(this) : undefined;
    }

    /** Has the record redelivered. */
    retry(options: RetryOptions = NO_OPTIONS): void {
        this.settle("retry", options);
    }

    /** Gives the record up and keeps it as a dead letter. */
    deadLetter(reason = ""): void {
        this.settle("dead_letter", { reason });
    }

    /** Gives the record up. */
    drop(): void {
        this.settle("drop", NO_OPTIONS);
    }

    /** Moves the ack deadline to `durationMs` from now. */
    extend(durationMs: number): void {
        if (!this.outcome) this.group.settler.extend(this, durationMs);
    }

    /** Returns the members as a plain object that JSON can hold. */
    toJSON(): RecordObject {
        return { ...this.members(), arrivedAt: this.arrivedAt.toISOString(), data: this.data.toString("base64") };
    }

    [inspect.custom](): object {
        return this.members();
    }

    private members() {
        const { stream, shardId, sequenceNumber, subSequenceNumber, epoch, attempt } = this;
        const { partitionKey, arrivedAt, aggregated, redriven, data } = this;
        return {
            stream,
            shardId,
            sequenceNumber,
            subSequenceNumber,
            epoch,
            attempt,
            partitionKey,
            arrivedAt,
            aggregated,
            redriven,
            data,
        };
    }

    private settle(outcome: Outcome, options: RetryOptions): void {
        if (this.outcome) return;
        this.outcome = outcome;
        this.options = options;
        this.group.settler.settle(this);
    }
}

/** Records that `batches()` hands out together. */
export class Batch implements Iterable<KinesisRecord> {
    constructor(readonly records: readonly KinesisRecord[]) {}

    get length(): number {
        return this.records.length;
    }

    [Symbol.iterator](): Iterator<KinesisRecord> {
        return this.records[Symbol.iterator]();
    }

    /** Acknowledges the records that have no outcome. */
    ack(): void {
        for (const record of this.records) record.ack();
    }

    /** Retries the records that have no outcome. */
    retry(options: RetryOptions = NO_OPTIONS): void {
        // Backwards: a retry takes back the later records of its lane, whose retries would be refused.
        for (let at = this.records.length - 1; at >= 0; at--) this.records[at]!.retry(options);
    }
}

/** @internal Identifies a record across its deliveries. */
export function identityOf(record: KinesisRecord): string {
    const { shardId, sequenceNumber, subSequenceNumber, redriven } = record;
    return `${shardId}/${sequenceNumber}/${subSequenceNumber}${redriven ? "/redriven" : ""}`;
}

/** @internal The place of a record in its shard. */
export type Place = Pick<KinesisRecord, "sequenceNumber" | "subSequenceNumber">;

/** @internal True if `record` is after `other` in the order of their shard. */
export function isLater(record: Place, other: Place): boolean {
    const { sequenceNumber: a } = record;
    const { sequenceNumber: b } = other;
    if (a === b) return record.subSequenceNumber > other.subSequenceNumber;
    return a.length === b.length ? a > b : a.length > b.length;
}
