// SPDX-License-Identifier: Apache-2.0
// Records that were received and that the app does not have yet.
import { isLater, type KinesisRecord, type Place } from "./record.js";

/** The event loop gets a turn at least this often, also while the app never waits for anything. */
const TURN_MS = 20;

/** A queue of records, linked by their member `next`: a record is in one queue at most. */
class RecordQueue {
    private first: KinesisRecord | undefined;
    private last: KinesisRecord | undefined;

    push(record: KinesisRecord): void {
        if (this.last) this.last.next = record;
        else this.first = record;
        this.last = record;
    }

    shift(): KinesisRecord | undefined {
        const record = this.first;
        if (!record) return undefined;
        this.first = record.next;
        if (!this.first) this.last = undefined;
        record.next = undefined;
        return record;
    }

    /** Adds a record before the first one for which `isNext` is true. */
    insert(record: KinesisRecord, isNext: (other: KinesisRecord) => boolean): void {
        const before = new RecordQueue();
        while (this.first && !isNext(this.first)) before.push(this.shift()!);
        before.push(record);
        this.prepend(before);
    }

    /** Moves all records of another queue before the first one. */
    prepend(other: RecordQueue): void {
        if (!other.last) return;
        other.last.next = this.first;
        this.first = other.first;
        this.last ??= other.last;
        other.first = other.last = undefined;
    }

    *[Symbol.iterator](): Iterator<KinesisRecord> {
        for (let record = this.first; record; record = record.next) yield record;
    }
}

/** The unit of order: a shard, or a lane of it. A retry takes back the later records of its scope. */
export class Scope {
    /** Retries of which the answer or the barrier is not there yet. While there are any, no record is handed out. */
    holds = 0;
    /** True if a record is ready or is handled, and the next one must wait for it. */
    busy = false;
    readonly waiting = new RecordQueue();
    /** The last record that was delivered: its lease epoch, and the last barrier before it. */
    epoch = 0;
    barrier = 0;
    /** The sidecar took all records after this one back; undefined: none. */
    private end: Place | undefined;

    /** Notes a delivery. The first delivery of a record has no delivered ones behind it. */
    enter(record: KinesisRecord): void {
        this.epoch = record.epoch;
        this.barrier = record.barrier;
        this.end = record.attempt > 1 ? placeOf(record) : undefined;
    }

    /** Notes that a retry took back all records after the retried one. */
    takeBack(retried: KinesisRecord): void {
        if (!this.hasTakenBack(retried)) this.end = placeOf(retried);
    }

    /** True if a record that the app has was taken back, and not redelivered yet. */
    hasTakenBack(record: KinesisRecord): boolean {
        return this.end !== undefined && isLater(record, this.end);
    }
}

/** A copy: the record would keep its buffer in memory. */
function placeOf({ sequenceNumber, subSequenceNumber }: KinesisRecord): Place {
    return { sequenceNumber, subSequenceNumber };
}

/** Hands received records out, in order. */
export class Inbox {
    stopped = false;
    /** True if it stopped because it was empty. */
    drained = false;
    private readonly scopes = new Map<string, Scope[]>();
    /** Scopes of the shard of the last record: most records are of the same shard as the one before. */
    private shardId = "";
    private lanes: Scope[] = [];
    private exclusive = false;
    private readonly ready = new RecordQueue();
    private size = 0;
    private waiting: (() => void)[] = [];
    private turnBegan = 0;

    /** `endsWhenEmpty`: no further records come after those that are there. */
    constructor(private readonly endsWhenEmpty: boolean) {}

    /** Begins to hand out. `exclusive`: a record waits until the one before it in its scope is done. */
    start(exclusive: boolean): void {
        const before: KinesisRecord[] = [];
        const scopes = [...this.scopes.values()].flatMap((lanes) => Object.values(lanes));
        const waiting = scopes.map((scope) => scope.waiting);
        // A scope's ready record is before those that wait if it is handled alone, else after those that a retry holds.
        for (const queue of this.exclusive ? [this.ready, ...waiting] : [...waiting, this.ready])
            for (let record = queue.shift(); record; record = queue.shift()) before.push(record);
        for (const scope of scopes) scope.busy = false;
        this.size = 0;
        this.exclusive = exclusive;
        this.stopped = this.drained = false;
        for (const record of before) this.push(record, record.scope);
    }

    /** Returns the scope of a lane of a shard. */
    scopeOf(shardId: string, lane: number): Scope {
        if (shardId !== this.shardId) {
            this.shardId = shardId;
            this.lanes = this.scopes.get(shardId) ?? [];
            this.scopes.set(shardId, this.lanes);
        }
        return (this.lanes[lane] ??= new Scope());
    }

    /** Adds a record. Without a scope it is handled beside all others. */
    push(record: KinesisRecord, scope: Scope | undefined): void {
        this.size++;
        record.scope = scope;
        if (!this.exclusive || !scope) this.ready.push(record);
        else if (scope.busy || scope.holds > 0) scope.waiting.push(record);
        else {
            scope.busy = true;
            this.ready.push(record);
        }
        if (this.waiting.length > 0) this.wake();
    }

    /** Has a record of a loop that was left handed out again, before the later records of its scope. */
    putBack(record: KinesisRecord): void {
        this.size++;
        this.ready.insert(record, (other) => other.scope === record.scope && (!record.scope || isLater(other, record)));
    }

    /** Returns the next record for the app, if there is one. */
    take(): KinesisRecord | undefined {
        if (this.stopped) return undefined;
        for (let record = this.ready.shift(); record; record = this.ready.shift()) {
            if (!record.dropped && record.scope && record.scope.holds > 0) {
                record.scope.waiting.push(record);
                continue;
            }
            this.size--;
            // A record that was put back may have got its outcome since.
            if (!record.dropped && !record.outcome) {
                record.taken = true;
                return record;
            }
            this.done(record);
        }
        if (this.endsWhenEmpty && this.size === 0) {
            this.drained = true;
            this.stop();
        }
        return undefined;
    }

    /** The app is done with a record: the next one of its scope may be handed out. */
    done(record: KinesisRecord): void {
        const { scope } = record;
        if (!this.exclusive || !scope) return;
        scope.busy = false;
        if (scope.holds === 0) this.next(scope);
    }

    /** The records of a scope that the app does not have. */
    *recordsOf(scope: Scope): Iterable<KinesisRecord> {
        for (const record of this.ready) if (record.scope === scope) yield record;
        yield* scope.waiting;
    }

    /** No retry holds the scope any more. */
    release(scope: Scope): void {
        if (!this.exclusive) this.ready.prepend(scope.waiting);
        else if (!scope.busy) this.next(scope);
        this.wake();
    }

    /** Resolves when there may be a record, and when the inbox stops. */
    wait(): Promise<void> {
        if (this.stopped) return Promise.resolve();
        return new Promise((resolve) => this.waiting.push(resolve));
    }

    wake(): void {
        const { waiting } = this;
        this.waiting = [];
        for (const resume of waiting) resume();
    }

    /** Hands out no further records. */
    stop(): void {
        this.stopped = true;
        this.wake();
    }

    /** True if timers and sockets have waited for a turn of the event loop for long. */
    get owesTurn(): boolean {
        return performance.now() - this.turnBegan > TURN_MS;
    }

    /** Resolves after timers and sockets had their turn. */
    async turn(): Promise<void> {
        await new Promise((resolve) => setImmediate(resolve));
        this.turnBegan = performance.now();
    }

    /** Makes the next record of a scope ready. */
    private next(scope: Scope): void {
        const record = scope.waiting.shift();
        if (!record) return;
        scope.busy = true;
        this.ready.push(record);
    }
}
