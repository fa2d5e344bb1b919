// SPDX-License-Identifier: Apache-2.0
// Retries that hold their scope.
//
// A retry takes back the later records of its scope. None of them is handed out until the sidecar has answered the
// request and the barrier of the request has arrived, in either order, or until the retried record is redelivered.
// Records that were received before the barrier of an accepted retry are dropped then: they are redelivered after the
// retried record.
import type { Inbox, Scope } from "./inbox.js";
import { identityOf, isLater, type KinesisRecord } from "./record.js";

/** A retry whose answer or barrier is not there yet. */
interface Hold {
    readonly retried: KinesisRecord;
    readonly identity: string;
    readonly scope: Scope;
    /** Number of the settle request, which is its barrier. 0: not sent yet. */
    request: number;
    /** Answer of the sidecar; undefined until it is there. */
    accepted: boolean | undefined;
}

export class Holds {
    /** Number of the last barrier of the stream. */
    barrier = 0;
    private holds: Hold[] = [];

    /** `drop` gives a record up that the app does not have. */
    constructor(
        private readonly inbox: Inbox,
        private readonly drop: (record: KinesisRecord) => void,
    ) {}

    /** The app retries a record. */
    add(retried: KinesisRecord): void {
        const { scope } = retried;
        // The retry may wait to be sent since an earlier delivery.
        if (!scope || this.holds.some((hold) => hold.retried === retried)) return;
        scope.holds++;
        this.holds.push({ retried, identity: identityOf(retried), scope, request: 0, accepted: undefined });
    }

    /** A request leaves with the retry of a record. */
    onSend(retried: KinesisRecord, request: number): void {
        for (const hold of this.holds) if (hold.retried === retried) hold.request = request;
    }

    /** The sidecar answered a request. `refused` has the reasons of the items that it did not accept, by ack id. */
    onAnswer(request: number, refused: ReadonlyMap<string, string>): void {
        for (const hold of this.holds) {
            if (hold.request !== request) continue;
            const reason = refused.get(hold.retried.ackId);
            // The id is of a sidecar that was restarted. It may have accepted an earlier copy of the request, so the
            // hold stays until the next session.
            if (reason !== "UNKNOWN") hold.accepted = reason === undefined;
        }
        this.finish();
    }

    /** All records that were delivered before the sidecar took the request have arrived. */
    onBarrier(request: number): void {
        // The barrier of an earlier copy may be late.
        this.barrier = Math.max(this.barrier, request);
        this.finish();
    }

    /** A record arrived. If its retry has left, the redelivery stands for the answer and the barrier of the retry. */
    onDelivery(record: KinesisRecord): void {
        if (this.holds.length === 0) return;
        const identity = identityOf(record);
        const over = this.holds.filter((hold) => hold.identity === identity);
        for (const hold of over) hold.accepted = true;
        this.end(over);
    }

    /** A new session: retries of the earlier one are void. */
    clear(): void {
        this.barrier = 0;
        for (const hold of this.holds) hold.accepted = false;
        this.end(this.holds);
    }

    private finish(): void {
        this.end(this.holds.filter((hold) => this.isOver(hold)));
    }

    private end(over: Hold[]): void {
        if (over.length === 0) return;
        this.holds = this.holds.filter((hold) => !over.includes(hold));
        for (const hold of over) if (hold.accepted) this.takeBack(hold);
        for (const { scope } of over) if (--scope.holds === 0) this.inbox.release(scope);
    }

    private isOver({ accepted, request }: Hold): boolean {
        return accepted !== undefined && this.barrier >= request;
    }

    /** Drops what the retry takes back: nothing that arrived after its barrier, or with a later lease of the shard. */
    private takeBack({ retried, scope, request }: Hold): void {
        const { epoch } = lastDelivery(retried);
        const mayTake = (delivery: { barrier: number; epoch: number }) =>
            delivery.barrier < request && delivery.epoch === epoch;
        for (const record of this.inbox.recordsOf(scope))
            if (mayTake(lastDelivery(record)) && !record.dropped && isLater(record, retried)) this.drop(record);
        if (mayTake(scope)) scope.takeBack(retried);
    }
}

const lastDelivery = (record: KinesisRecord) => record.redelivery ?? record;
