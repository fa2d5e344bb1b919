// SPDX-License-Identifier: Apache-2.0
import type { Inbox } from "./inbox.js";
import type { KinesisRecord } from "./record.js";

/** Is called with each record. A promise that rejects, or an error, has the record redelivered. */
export type Handler = (record: KinesisRecord) => unknown;

/** Place of one handler that has returned a promise. It is used again, so that a record costs no closures. */
class Slot {
    private record!: KinesisRecord;

    constructor(private readonly free: (slot: Slot, record: KinesisRecord) => void) {}

    wait(record: KinesisRecord, result: PromiseLike<unknown>): void {
        this.record = record;
        void Promise.resolve(result).then(this.onResolved, this.onRejected);
    }

    private readonly onResolved = () => {
        this.record.ack();
        this.free(this, this.record);
    };

    private readonly onRejected = (error: unknown) => {
        retry(this.record, error);
        this.free(this, this.record);
    };
}

/** Calls a handler with the records of an inbox, several at the same time. */
export class Handlers {
    private readonly free: Slot[] = [];
    private end: () => void = () => {};
    private waiting = false;
    private turning = false;

    constructor(
        private readonly inbox: Inbox,
        private readonly handler: Handler,
        private readonly concurrency: number,
    ) {
        for (let count = 0; count < concurrency; count++) this.free.push(new Slot(this.onFree));
    }

    /** Resolves when the inbox has stopped and no handler runs. */
    run(): Promise<void> {
        return new Promise((resolve) => {
            this.end = resolve;
            this.begin();
        });
    }

    /** Begins handlers for the records that are ready. Is called again when there are more, and when a handler ends. */
    private readonly begin = (): void => {
        const { inbox } = this;
        while (this.free.length > 0) {
            if (inbox.owesTurn) return this.takeTurn();
            const record = inbox.take();
            if (!record) break;
            this.handle(record);
        }
        if (this.free.length === 0) return;
        if (!inbox.stopped) this.wait();
        else if (this.free.length === this.concurrency) this.end();
    };

    private handle(record: KinesisRecord): void {
        try {
            const result = this.handler(record);
            if (isThenable(result)) return this.free.pop()!.wait(record, result);
            record.ack();
        } catch (error) {
            retry(record, error);
        }
        this.inbox.done(record);
    }

    private readonly onFree = (slot: Slot, record: KinesisRecord): void => {
        this.free.push(slot);
        this.inbox.done(record);
        this.begin();
    };

    private takeTurn(): void {
        if (this.turning) return;
        this.turning = true;
        void this.inbox.turn().then(() => {
            this.turning = false;
            this.begin();
        });
    }

    private wait(): void {
        if (this.waiting) return;
        this.waiting = true;
        void this.inbox.wait().then(() => {
            this.waiting = false;
            this.begin();
        });
    }
}

function retry(record: KinesisRecord, error: unknown): void {
    record.retry({ reason: error instanceof Error ? error.message : String(error) });
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
    return typeof (value as PromiseLike<unknown> | undefined)?.then === "function";
}
