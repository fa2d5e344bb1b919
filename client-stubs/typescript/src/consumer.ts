// SPDX-License-Identifier: Apache-2.0
import { Api } from "./api.js";
import { Connection } from "./connection.js";
import { SessionTakenOver } from "./errors.js";
import type { ConsumerEvent, ControlEvent } from "./events.js";
import { Reader } from "./reader.js";
import type { KinesisRecord } from "./record.js";
import { SessionSettler } from "./settler.js";

const ACK_INTERVAL_MS = 100;
const MAX_PROCESSING_MS = 3_600_000;
const LANES = 64;
const CLOSE_MS = 5000;

/** What stays in order: the records of a shard, of a lane of it, or nothing. */
export type Ordering = "shard" | "key" | "none";

export interface ConsumerOptions {
    /** `http://HOST:PORT` or `unix:/PATH`. Default: `KINESIS_SIDECAR_URL`, else `http://127.0.0.1:8990`. */
    url?: string;
    /** File with the bearer token, read for each request. Default: `KINESIS_SIDECAR_TOKEN_FILE`. */
    tokenFile?: string;
    /** Maximum records delivered and not settled. Default: 1000. */
    maxInFlight?: number;
    /** The same in bytes of data and partition keys. Default: 16 MiB. */
    maxInFlightBytes?: number;
    /** A record that is not settled and not extended by then is redelivered. Default: 60,000. */
    ackDeadlineMs?: number;
    /** How long the package extends the ack deadline of a record that the app has. Default: 3,600,000. */
    maxProcessingMs?: number;
    /** How long an acknowledgement waits for others, to share a request with them. Default: 100. */
    ackIntervalMs?: number;
    /** What stays in order. Default: `shard`; `key` with a `share`, or if the first run has a concurrency above 1. */
    ordering?: Ordering;
    /** Lanes of a shard with the ordering `key`, 1 to 64. Default: 64 with a `share`, or a concurrency above 1. */
    lanes?: number;
    /** Shard ids to read. Default: all. */
    shards?: readonly string[];
    /**
     * Part of the partition keys to read, a decimal like `"0.05"`. Consumers without a share get all other keys; they must
     * have the same `ordering` and `lanes`. Default: none.
     */
    share?: string;
    /** Chooses which keys are in the `share`: another salt, other keys. */
    salt?: string;
    /**
     * Pattern of the records to read, as JSON text or as an object. All other records count as settled. All open consumers
     * of a subscription have the same filter. Default: none.
     */
    filter?: string | object;
    /** Name of the subscription; needed if the sidecar has several. */
    subscription?: string;
    /** Is called with every control event of the stream, and with `disconnected` and `settle_failed`. */
    onEvent?: (event: ConsumerEvent) => void;
}

/** Receives records from a sidecar. It connects when the first record is asked for. */
export class Consumer extends Reader {
    private readonly api: Api;
    private settler: SessionSettler | undefined;
    private connection: Connection | undefined;
    private isOrdered = true;
    private closing: Promise<void> | undefined;

    /** @param clientId Name of this consumer: at most 64 of `A-Z a-z 0-9 . _ -`, each name in one process at a time. */
    constructor(
        readonly clientId: string,
        private readonly options: ConsumerOptions = {},
    ) {
        super(false);
        if (!clientId) throw new RangeError("clientId must have 1 to 64 characters");
        this.api = new Api(options.url, options.tokenFile);
    }

    /** Settlements of sessions that had ended. Their records are redelivered. */
    get stale(): number {
        return this.settler?.stale ?? 0;
    }

    /** Settlements that the sidecar refused one by one. */
    get failed(): number {
        return this.settler?.failed ?? 0;
    }

    override close(): Promise<void> {
        this.closing ??= this.shutDown();
        return this.closing;
    }

    /** @internal */
    protected override start(concurrency: number): void {
        if (this.closing) throw new Error("the consumer is closed");
        const { options } = this;
        const wantsLanes = concurrency > 1 || options.share !== undefined;
        const ordering = options.ordering ?? (wantsLanes ? "key" : "shard");
        this.inbox.start(concurrency > 1);
        if (this.connection) return;
        this.isOrdered = ordering !== "none";
        this.settler = new SessionSettler({
            api: this.api,
            inbox: this.inbox,
            ackIntervalMs: options.ackIntervalMs ?? ACK_INTERVAL_MS,
            maxProcessingMs: options.maxProcessingMs ?? MAX_PROCESSING_MS,
            emit: (event) => this.emit(event),
            fail: (error) => this.fail(error),
        });
        this.connection = new Connection(this.api, this.streamPath(ordering, wantsLanes), {
            onRecord: (record, batchId) => this.onRecord(record, batchId),
            onEvent: (event) => this.onEvent(event),
            onDisconnected: (reason, retryInMs) => this.onDisconnected(reason, retryInMs),
        });
        this.connection.run().catch((error: unknown) => this.fail(error));
    }

    private streamPath(ordering: Ordering, wantsLanes: boolean): string {
        const { options } = this;
        const { filter } = options;
        const lanes = options.lanes ?? (wantsLanes ? LANES : undefined);
        const query = new URLSearchParams({ client_id: this.clientId });
        const add = (name: string, value: string | number | undefined) => {
            if (value !== undefined) query.set(name, String(value));
        };
        add("max_in_flight", options.maxInFlight);
        add("max_in_flight_bytes", options.maxInFlightBytes);
        add("ack_deadline_ms", options.ackDeadlineMs);
        add("ordering", ordering);
        add("lanes", ordering === "key" ? lanes : options.lanes);
        add("shards", options.shards?.join(","));
        add("share", options.share);
        add("salt", options.salt);
        add("filter", typeof filter === "object" ? JSON.stringify(filter) : filter);
        add("subscription", options.subscription);
        return `/v1/records/stream?${query.toString().replaceAll("+", "%20")}`;
    }

    private onRecord(record: KinesisRecord, batchId: string): void {
        const isOrdered = this.isOrdered && !record.redriven;
        record.scope = isOrdered ? this.inbox.scopeOf(record.shardId, record.lane) : undefined;
        if (this.settler!.receive(record, batchId)) this.inbox.push(record, record.scope);
    }

    private onEvent(event: ControlEvent): void {
        const settler = this.settler!;
        if (event.type === "session") {
            settler.begin(event);
            this.connection!.opened(event.heartbeatMs);
        } else if (event.type === "barrier") settler.holds.onBarrier(Number(event.barrier));
        else if (event.type === "lease_lost") settler.loseShard(event.shardId);
        this.emit(event);
        if (event.type === "ended" && event.reason === "taken_over") throw new SessionTakenOver(this.clientId);
    }

    private onDisconnected(reason: string, retryInMs: number): void {
        this.settler!.disconnected();
        this.emit({ type: "disconnected", reason, retryInMs });
    }

    private emit(event: ConsumerEvent): void {
        try {
            this.options.onEvent?.(event);
        } catch (error) {
            this.fail(error);
        }
    }

    private fail(error: unknown): void {
        this.failure ??= error as Error;
        this.stop();
    }

    private async shutDown(): Promise<void> {
        this.stop();
        await this.handling.catch(() => {});
        await this.settler?.finish();
        this.connection?.close();
        if (this.connection && !(this.failure instanceof SessionTakenOver)) await this.endSession();
        this.api.close();
    }

    private async endSession(): Promise<void> {
        const subscription = this.options.subscription;
        const query = subscription === undefined ? "" : `?subscription=${encodeURIComponent(subscription)}`;
        const path = `/v1/sessions/${encodeURIComponent(this.clientId)}${query}`;
        // Without the request the session ends 5 s after its connection.
        await this.api.call("DELETE", path, undefined, CLOSE_MS).catch(() => {});
    }
}
