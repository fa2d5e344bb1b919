// SPDX-License-Identifier: Apache-2.0
/// <reference lib="esnext.disposable" preserve="true" />
// The three ways to read: run, iteration and batches.
import { Handlers, type Handler } from "./handlers.js";
import { Inbox } from "./inbox.js";
import { Batch, type KinesisRecord } from "./record.js";

export interface RunOptions {
    /** Handlers that run at the same time. Default: 1. */
    concurrency?: number;
    /** Stops the run. */
    signal?: AbortSignal;
    /** Whether SIGTERM and SIGINT stop the run. Default: true. */
    signals?: boolean;
}

export interface BatchOptions {
    /** Most records of a batch. Default: 500. */
    maxRecords?: number;
    /** Milliseconds from the first record of a batch until it is handed out. Default: 1000. */
    maxWaitMs?: number;
}

const STOP_SIGNALS = ["SIGTERM", "SIGINT"] as const;

/** What a consumer and its stand-in for tests have in common. */
export abstract class Reader implements AsyncIterable<KinesisRecord> {
    /** @internal */
    protected readonly inbox: Inbox;
    /** @internal */
    protected failure: Error | undefined;
    /** @internal Resolves when all handlers of a run have returned. */
    protected handling: Promise<unknown> = Promise.resolve();
    /** Returns the records that the last loop handed out last. */
    private withLoop: () => readonly KinesisRecord[] = () => [];

    /** @internal */
    protected constructor(endsWhenEmpty: boolean) {
        this.inbox = new Inbox(endsWhenEmpty);
    }

    /** @internal Begins to receive records. */
    protected abstract start(concurrency: number): void;

    /** Stops, waits for the handlers of a run, and gives all unsettled records back. Handlers call `stop` instead. */
    abstract close(): Promise<void>;

    /** Ends the run or the iteration: no further record is handed out. Handlers may call it. */
    stop(): void {
        this.inbox.stop();
    }

    /**
     * Calls `handler` with each record, until it is stopped. A record is acknowledged when its handler returns or
     * resolves. The consumer is closed afterwards.
     */
    async run(handler: Handler, options: RunOptions = {}): Promise<void> {
        const { concurrency = 1, signal, signals = true } = options;
        if (!Number.isInteger(concurrency) || concurrency < 1)
            throw new RangeError(`concurrency must be 1 or more, got ${concurrency}`);
        this.start(concurrency);
        const unlisten = this.stopOn(signal, signals ? STOP_SIGNALS : []);
        try {
            this.handling = new Handlers(this.inbox, handler, concurrency).run();
            await this.handling;
        } finally {
            await this.close();
            unlisten();
        }
        if (this.failure) throw this.failure;
    }

    /**
     * Hands out one record after the other. A record is acknowledged when the next one is asked for. If the loop is left,
     * the next loop hands its record out again, unless it has an outcome by then.
     */
    [Symbol.asyncIterator](): AsyncIterator<KinesisRecord> {
        this.beginLoop();
        const iterator = new RecordIterator(this.inbox, () => this.failure);
        this.withLoop = () => iterator.records;
        return iterator;
    }

    private beginLoop(): void {
        this.start(1);
        for (const record of [...this.withLoop()].reverse())
            if (!record.outcome && record.group.settler.putBack(record)) this.inbox.putBack(record);
    }

    /**
     * Hands out lists of records. A batch is acknowledged when the next one is asked for, or by `batch.ack()`. A loop that
     * is left is as that over records.
     */
    async *batches(options: BatchOptions = {}): AsyncGenerator<Batch, void, undefined> {
        const { maxRecords = 500, maxWaitMs = 1000 } = options;
        this.beginLoop();
        let batch: Batch | undefined;
        this.withLoop = () => batch?.records ?? [];
        while ((batch = await this.gather(maxRecords, maxWaitMs))) {
            yield batch;
            batch.ack();
        }
        if (this.failure) throw this.failure;
    }

    /** Returns the next batch, or undefined when the consumer has stopped. */
    private async gather(maxRecords: number, maxWaitMs: number): Promise<Batch | undefined> {
        const { inbox } = this;
        const records: KinesisRecord[] = [];
        let late = false;
        let timer: NodeJS.Timeout | undefined;
        if (inbox.owesTurn) await inbox.turn();
        while (!inbox.stopped && !late && records.length < maxRecords) {
            const record = inbox.take();
            if (!record) {
                await inbox.wait();
                continue;
            }
            timer ??= setTimeout(() => {
                late = true;
                inbox.wake();
            }, maxWaitMs);
            records.push(record);
        }
        clearTimeout(timer);
        const isLast = inbox.drained && records.length > 0;
        if (!inbox.stopped || isLast) return new Batch(records);
        this.withLoop = () => records;
        return undefined;
    }

    /** Stops when one of the signals arrives. Returns a function that ends that. */
    private stopOn(signal: AbortSignal | undefined, names: readonly NodeJS.Signals[]): () => void {
        const stop = () => this.stop();
        signal?.addEventListener("abort", stop);
        if (signal?.aborted) stop();
        for (const name of names) process.once(name, stop);
        return () => {
            signal?.removeEventListener("abort", stop);
            for (const name of names) process.off(name, stop);
        };
    }
}

/** Closes the consumer at the end of an `await using` block, if the runtime has `Symbol.asyncDispose`. */
export interface Reader extends AsyncDisposable {}

if (Symbol.asyncDispose)
    Object.defineProperty(Reader.prototype, Symbol.asyncDispose, {
        value(this: Reader) {
            return this.close();
        },
    });

class RecordIterator implements AsyncIterator<KinesisRecord> {
    private current: KinesisRecord | undefined;
    private ended = false;

    constructor(
        private readonly inbox: Inbox,
        private readonly failure: () => Error | undefined,
    ) {}

    next(): Promise<IteratorResult<KinesisRecord>> {
        if (!this.ended) this.current?.ack();
        this.current = undefined;
        if (this.inbox.owesTurn || this.ended) return this.wait();
        this.current = this.inbox.take();
        return this.current ? Promise.resolve({ done: false, value: this.current }) : this.wait();
    }

    /** The record that was handed out last. */
    get records(): readonly KinesisRecord[] {
        return this.current ? [this.current] : [];
    }

    /** The loop is left: its record has no outcome, and the next loop hands it out again. */
    return(): Promise<IteratorResult<KinesisRecord>> {
        this.ended = true;
        return Promise.resolve({ done: true, value: undefined });
    }

    private async wait(): Promise<IteratorResult<KinesisRecord>> {
        const { inbox } = this;
        if (inbox.owesTurn) await inbox.turn();
        while (!this.ended && !inbox.stopped) {
            this.current = inbox.take();
            if (this.current) return { done: false, value: this.current };
            await inbox.wait();
        }
        const failure = this.failure();
        if (failure && !this.ended) {
            this.ended = true;
            throw failure;
        }
        return { done: true, value: undefined };
    }
}
