// SPDX-License-Identifier: Apache-2.0
// A consumer without a network, for tests of the app's handlers.
import type { Scope } from "./inbox.js";
import { Reader } from "./reader.js";
import { KinesisRecord, type Outcome, type RetryOptions, type Settler } from "./record.js";

/** A record for a test. Members that are left out have plain values. */
export interface TestRecord {
    /** Data as bytes or text. */
    data?: Uint8Array | string;
    /** Data as a value, which becomes JSON. */
    json?: unknown;
    partitionKey?: string;
    stream?: string;
    shardId?: string;
    sequenceNumber?: string;
    subSequenceNumber?: number;
    epoch?: number;
    attempt?: number;
    arrivedAt?: Date;
    aggregated?: boolean;
    redriven?: boolean;
}

/** Outcome of a record in a test. */
export interface SettledRecord extends RetryOptions {
    record: KinesisRecord;
    outcome: Outcome;
}

/**
 * Hands out the records of a test by the interface of `Consumer`. A run or an iteration ends after the last record. A
 * record that is retried is not redelivered: give it once more with `attempt: 2` to test that.
 */
export class TestConsumer extends Reader {
    /** Outcomes in the order in which the records were settled. Records without an outcome are not in it. */
    readonly outcomes: SettledRecord[] = [];
    readonly stale = 0;
    readonly failed = 0;
    private count = 0;
    private readonly lanes = new Map<string, number>();
    private readonly settler: Settler = {
        settle: (record) => void this.outcomes.push({ record, outcome: record.outcome!, ...record.options }),
        extend: () => {},
        putBack: () => true,
        persisted: (record) => Promise.resolve(record.outcome === "ack"),
    };

    constructor(readonly clientId = "test") {
        super(true);
    }

    /** Adds records after those that are not handed out yet, and returns them. */
    put(...records: TestRecord[]): KinesisRecord[] {
        const added = records.map((record) => this.recordOf(record));
        for (const record of added) this.inbox.push(record, this.scopeOf(record));
        return added;
    }

    override async close(): Promise<void> {
        this.stop();
        await this.handling;
    }

    /** @internal */
    protected override start(concurrency: number): void {
        this.inbox.start(concurrency > 1);
    }

    /** Each partition key has a lane of its own. */
    private scopeOf({ redriven, shardId, partitionKey }: KinesisRecord): Scope | undefined {
        if (redriven) return undefined;
        const lane = this.lanes.get(partitionKey) ?? this.lanes.size;
        this.lanes.set(partitionKey, lane);
        return this.inbox.scopeOf(shardId, lane);
    }

    private recordOf({ data, json, ...members }: TestRecord): KinesisRecord {
        const bytes = data ?? JSON.stringify(json ?? null);
        const values = {
            stream: "test",
            shardId: "shardId-000000000000",
            partitionKey: "key",
            epoch: 1,
            sequenceNumber: String(++this.count),
            arrivedAt: new Date(),
            ...members,
            data:
                typeof bytes === "string"
                    ? Buffer.from(bytes)
                    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length),
            group: { settler: this.settler },
        };
        // The members of a received record are read from its message.
        return Object.defineProperties(new KinesisRecord(), Object.getOwnPropertyDescriptors(values));
    }
}
