// SPDX-License-Identifier: Apache-2.0
// Collects the outcomes of records and sends them to the sidecar, one request at a time.
import { backoffMs, type Api } from "./api.js";
import { SidecarError } from "./errors.js";
import type { ConsumerEvent, SessionEvent } from "./events.js";
import { Holds } from "./holds.js";
import type { Inbox, Scope } from "./inbox.js";
import { identityOf, isLater, type Group, type KinesisRecord, type Outcome, type Settler } from "./record.js";

const SETTLE_PATH = "/v1/records/settle";
const ITEMS_MAX = 1000;
/** The sidecar keeps so many bytes of a reason. */
const REASON_BYTES_MAX = 1000;
/** Most outcomes with a reason in a request, which has 1 MiB at most. */
const OTHERS_MAX = 100;
const PERSISTED_WAIT_MS = 10_000;
/** An answer later than this is taken for lost. It leaves time to extend within a third of the ack deadline. */
const ANSWER_MIN_MS = 1000;
const ANSWER_MAX_MS = 5000;
/** Tries for what waits when the consumer closes. */
const CLOSING_TRIES = 3;
/** Reasons of a refusal: the sidecar redelivers the record. */
const REDELIVERED = ["EXPIRED", "FENCED"];

interface Settlement {
    ack_id?: string;
    batch_id?: string;
    outcome: Outcome | "extend";
    delay_ms?: number;
    reason?: string;
}

interface Failure {
    ack_id: string;
    reason: string;
    message: string;
}

interface SettleAnswer {
    failed: Failure[];
    persisted: boolean;
    positions: { shard_id: string; epoch: number; checkpoint: string }[];
}

interface SettleRequest {
    number: number;
    generation: number;
    items: Settlement[];
    /** Records that the items settle. */
    records: KinesisRecord[];
    barrier: boolean;
}

/** Records that share a batch id. */
class Delivered implements Group {
    readonly records: KinesisRecord[] = [];
    /** Records without an outcome, but for those that were dropped. */
    open = 0;
    acked = 0;
    /** Acknowledgements that wait to be sent. */
    unsent = 0;
    /** True when no further record of the batch follows. */
    whole = false;
    /** True when the lease of its shard is lost. */
    lost = false;

    constructor(
        readonly settler: Settler,
        readonly batchId: string,
        readonly generation: number,
        readonly since: number,
    ) {}

    get isAcked(): boolean {
        return this.whole && this.acked === this.records.length;
    }
}

const groupOf = (record: KinesisRecord) => record.group as Delivered;

/** What the settler needs of its consumer. */
export interface SettlerOptions {
    api: Api;
    inbox: Inbox;
    ackIntervalMs: number;
    maxProcessingMs: number;
    emit(event: ConsumerEvent): void;
    fail(error: unknown): void;
}

export class SessionSettler implements Settler {
    /** Settlements of sessions that have ended. Their records are redelivered. */
    stale = 0;
    /** Settlements that the sidecar refused one by one. */
    failed = 0;
    readonly holds: Holds;

    private generation = 0;
    private requests = 0;
    /** Groups with records that have no outcome, or whose outcome waits to be sent. */
    private readonly groups = new Set<Delivered>();
    private current: Delivered | undefined;
    private acks: Delivered[] = [];
    private ackCount = 0;
    private ackBytes = 0;
    private ackCountMax = 500;
    private ackBytesMax = 8 * 1024 * 1024;
    private others: KinesisRecord[] = [];
    private extensions: { record: KinesisRecord; durationMs: number }[] = [];
    private pending: SettleRequest | undefined;
    /** By identity: records that the app has, or whose outcome is not confirmed, and whose session has ended. */
    private readonly unconfirmed = new Map<string, KinesisRecord>();
    /** By identity: unconfirmed records of the session, for the redeliveries in the current group, if it has any. */
    private earlier: Map<string, KinesisRecord> | undefined;
    /** Scopes of which a redelivery in the current group has replaced all later records that wait. */
    private readonly replaced = new Set<Scope>();
    /** True while there may be unconfirmed records of a lost lease. The next lease counts attempts from 1. */
    private leaseLost = false;
    /** By shard: the first record of its last batch in the session. */
    private readonly heads = new Map<string, KinesisRecord>();
    private persistedWaiters: { record: KinesisRecord; resolve: (covered: boolean) => void }[] = [];
    private waitingForTable = false;
    private sending: Promise<void> | undefined;
    private ackTimer: NodeJS.Timeout | undefined;
    /** True if acknowledgements leave that wait for others of their batch. */
    private ackDue = false;
    private extendTimer: NodeJS.Timeout | undefined;
    private extendDue = false;
    private ackDeadlineMs = 60_000;
    private answerMs = ANSWER_MAX_MS;
    private connected = false;
    private closing = false;
    private endPause: () => void = () => {};

    constructor(private readonly options: SettlerOptions) {
        this.holds = new Holds(options.inbox, (record) => this.drop(record));
    }

    /** A new session: the sidecar redelivers all that it has no outcome of. */
    begin(session: SessionEvent): void {
        this.keepUnconfirmed();
        this.generation++;
        this.connected = true;
        this.groups.clear();
        this.current = undefined;
        this.leaseLost = false;
        this.acks = [];
        this.ackCount = this.ackBytes = 0;
        this.others = [];
        this.extensions = [];
        this.holds.clear();
        this.ackCountMax = session.maxInFlight / 2;
        this.ackBytesMax = session.maxInFlightBytes / 2;
        this.ackDeadlineMs = session.ackDeadlineMs;
        this.answerMs = Math.min(Math.max(session.ackDeadlineMs / 3, ANSWER_MIN_MS), ANSWER_MAX_MS);
        clearInterval(this.extendTimer);
        this.extendTimer = setInterval(() => this.extendAll(), session.ackDeadlineMs / 3);
        this.endPause();
    }

    /** The connection is lost: the app gets none of the records that wait, because they are redelivered. */
    disconnected(): void {
        this.connected = false;
        for (const record of this.live()) if (!record.taken) this.drop(record);
        this.flush();
    }

    /** Takes a record that arrived. Returns false if the app has an earlier delivery, whose outcome settles it. */
    receive(record: KinesisRecord, batchId: string): boolean {
        let group = this.current;
        if (group?.batchId !== batchId) group = this.nextGroup(batchId, record);
        record.group = group!;
        record.barrier = this.holds.barrier;
        group!.open++;
        record.scope?.enter(record);
        if (record.scope && record.attempt > 1 && !this.replaced.has(record.scope)) this.replace(record, record.scope);
        const earlier = this.earlierOf(record);
        group!.records.push(earlier ?? record);
        if (earlier) this.redeliver(earlier, record);
        else this.holds.onDelivery(record);
        return !earlier;
    }

    /**
     * Drops the records that wait in the scope of a redelivery, from its position on. The sidecar delivers a scope in
     * order: it took them back, and redelivers them after this one.
     */
    private replace(redelivery: KinesisRecord, scope: Scope): void {
        this.replaced.add(scope);
        for (const record of this.options.inbox.recordsOf(scope))
            if (!record.dropped && !isLater(redelivery, record)) this.drop(record);
    }

    /** The lease of a shard is lost: the next owner redelivers what is not settled. */
    loseShard(shardId: string): void {
        this.leaseLost = true;
        for (const record of this.live()) {
            if (record.shardId !== shardId || record.redriven) continue;
            groupOf(record).lost = true;
            if (!record.taken) this.drop(record);
        }
    }

    settle(record: KinesisRecord): void {
        const group = groupOf(record);
        record.taken = true; // It may have been put back.
        if (this.closing) this.stale++;
        // A record of an earlier session waits for its redelivery.
        else if (group.generation === this.generation) this.collect(record, group);
    }

    putBack(record: KinesisRecord): boolean {
        const group = groupOf(record);
        const identity = identityOf(record);
        if (this.unconfirmed.get(identity) === record) this.unconfirmed.delete(identity);
        record.taken = false;
        this.replaced.clear();
        const isHere =
            group.generation === this.generation &&
            this.connected &&
            !group.lost &&
            !record.scope?.hasTakenBack(record);
        if (!isHere) this.drop(record);
        return isHere;
    }

    extend(record: KinesisRecord, durationMs: number): void {
        if (groupOf(record).generation !== this.generation || this.closing) return;
        this.extensions.push({ record, durationMs });
        this.flush();
    }

    persisted(record: KinesisRecord): Promise<boolean> {
        if (record.outcome !== "ack" || groupOf(record).generation !== this.generation || this.closing)
            return Promise.resolve(false);
        this.flushAll();
        return new Promise((resolve) => {
            this.persistedWaiters.push({ record, resolve });
            if (!this.waitingForTable) void this.waitForTable();
        });
    }

    /** Sends what waits. Afterwards nothing is sent any more. */
    async finish(): Promise<void> {
        clearInterval(this.extendTimer);
        this.extendDue = false;
        this.closing = true;
        this.endPause();
        this.flushAll();
        await this.sending;
        clearTimeout(this.ackTimer);
    }

    // --- Collecting ---

    private *live(): Iterable<KinesisRecord> {
        for (const group of this.groups) for (const record of group.records) if (!record.dropped) yield record;
    }

    /** Ends the current group. Events are no sign of that: they may be between its records. */
    private nextGroup(batchId: string, first: KinesisRecord): Delivered {
        const before = this.current;
        if (before) {
            before.whole = true;
            this.forgetIfDone(before);
        }
        this.earlier = undefined;
        this.replaced.clear();
        this.current = new Delivered(this, batchId, this.generation, performance.now());
        this.groups.add(this.current);
        if (!first.redriven) this.heads.set(first.shardId, first);
        return this.current;
    }

    private collect(record: KinesisRecord, group: Delivered): void {
        group.open--;
        if (record.outcome === "ack") this.ack(record, group);
        else {
            if (record.outcome === "retry") this.holds.add(record);
            this.others.push(record);
            this.flush();
        }
    }

    private ack(record: KinesisRecord, group: Delivered): void {
        group.acked++;
        if (group.unsent++ === 0) this.acks.push(group);
        this.ackCount++;
        this.ackBytes += record.size;
        if (this.isCrowded) this.flush();
        this.ackTimer ??= setTimeout(() => this.flushAll(), this.options.ackIntervalMs);
    }

    /** Gives up a record that the app does not have. */
    private drop(record: KinesisRecord): void {
        const group = groupOf(record);
        record.dropped = true;
        group.open--;
        this.forgetIfDone(group);
    }

    private forgetIfDone(group: Delivered): void {
        if (group.whole && group.open === 0 && group.unsent === 0) this.groups.delete(group);
    }

    // --- Redelivery ---

    private keepUnconfirmed(): void {
        for (const [identity, record] of this.unconfirmed) {
            if (!this.isSettled(record)) continue;
            this.unconfirmed.delete(identity);
            if (!record.sent) this.stale++;
        }
        for (const record of this.unconfirmedOfSession())
            if (record.taken) this.unconfirmed.set(identityOf(record), record);
        this.heads.clear();
    }

    /** Records of which the sidecar has not confirmed an outcome. The app may have those that are taken. */
    private *unconfirmedOfSession(): Iterable<KinesisRecord> {
        for (const record of this.live()) if (!record.sent) yield record;
        yield* this.others;
        yield* this.pending?.records ?? [];
    }

    /** True if the session did not redeliver the record, but a later one of its shard. A redriven one has no order. */
    private isSettled(record: KinesisRecord): boolean {
        const head = this.heads.get(record.shardId);
        return record.outcome !== undefined && (record.redriven || (head !== undefined && isLater(head, record)));
    }

    /** Returns the delivery of the record that the app has, or whose outcome is not confirmed. */
    private earlierOf(redelivery: KinesisRecord): KinesisRecord | undefined {
        const mayBeOfSession = redelivery.attempt > 1 || this.leaseLost;
        if (!mayBeOfSession && this.unconfirmed.size === 0) return undefined;
        const identity = identityOf(redelivery);
        const record = this.unconfirmed.get(identity);
        this.unconfirmed.delete(identity);
        return record ?? (mayBeOfSession ? this.earlierOfSession(identity) : undefined);
    }

    private earlierOfSession(identity: string): KinesisRecord | undefined {
        this.earlier ??= new Map([...this.unconfirmedOfSession()].map((record) => [identityOf(record), record]));
        const record = this.earlier.get(identity);
        // A retry that has left may be the cause of the redelivery, which the app gets.
        return record?.taken && !(record.outcome === "retry" && record.sent) ? record : undefined;
    }

    /**
     * Has the outcome of a record settle a redelivery. The earlier batch of the record keeps it in its list, and its
     * batch id is not acknowledged.
     */
    private redeliver(record: KinesisRecord, redelivery: KinesisRecord): void {
        this.withdraw(record);
        record.since ??= groupOf(record).since;
        record.redelivery = redelivery;
        record.group = redelivery.group;
        record.sent = false;
        if (record.outcome) this.collect(record, groupOf(record));
    }

    /** Undoes what the earlier batch of the session has counted of a record. */
    private withdraw(record: KinesisRecord): void {
        const group = groupOf(record);
        if (group.generation !== this.generation) return;
        if (!record.outcome) group.open--;
        else if (isUnsent(record, group)) {
            group.acked--;
            group.unsent--;
            this.ackCount--;
            this.ackBytes -= record.size;
        } else this.others = this.others.filter((other) => other !== record);
        this.forgetIfDone(group);
    }

    // --- Sending ---

    /** Sends also the acknowledgements that wait for others of their batch. */
    private flushAll(): void {
        clearTimeout(this.ackTimer);
        this.ackTimer = undefined;
        this.ackDue = true;
        this.flush();
    }

    private flush(): void {
        // In a later microtask: outcomes of the same moment share a request.
        this.sending ??= Promise.resolve()
            .then(() => this.send())
            .catch((error: unknown) => this.options.fail(error));
    }

    private async send(): Promise<void> {
        try {
            for (;;) {
                if (this.extendDue) await this.sendExtensions();
                const request = this.nextRequest();
                if (request.items.length === 0) return;
                await this.deliver(request);
            }
        } finally {
            // In the same moment as the last look at what waits: a flush in between would be lost.
            this.sending = undefined;
        }
    }

    private nextRequest(): SettleRequest {
        const number = ++this.requests;
        const { generation } = this;
        const request: SettleRequest = { number, generation, items: [], records: [], barrier: false };
        for (const { record, durationMs } of this.extensions.splice(0, OTHERS_MAX))
            if (!record.outcome)
                request.items.push({ ack_id: record.ackId, outcome: "extend", delay_ms: Math.ceil(durationMs) });
        for (const record of this.others.splice(0, OTHERS_MAX)) this.takeOther(record, request);
        // A refusal of another outcome must not take acknowledgements along.
        if (request.records.length === 0) this.takeAcks(request);
        return request;
    }

    private takeOther(record: KinesisRecord, request: SettleRequest): void {
        request.items.push(itemOf(record));
        this.take(record, request);
        this.forgetIfDone(groupOf(record));
        if (record.outcome !== "retry") return;
        this.holds.onSend(record, request.number);
        request.barrier = true;
    }

    /** Moves acknowledgements to a request: whole groups by their batch id, others by ack id if they are due. */
    private takeAcks(request: SettleRequest): void {
        this.acks = this.acks.filter((group) => !this.takeWhole(group, request));
        if (this.ackDue || this.isCrowded) this.acks = this.acks.filter((group) => !this.takeOneByOne(group, request));
        if (this.acks.length === 0) this.ackDue = false;
    }

    private get isCrowded(): boolean {
        return this.ackCount >= this.ackCountMax || this.ackBytes >= this.ackBytesMax;
    }

    /** Acknowledges a group by its batch id, if that acknowledges no other records. */
    private takeWhole(group: Delivered, request: SettleRequest): boolean {
        if (!group.isAcked || request.items.length >= ITEMS_MAX) return false;
        request.items.push({ batch_id: group.batchId, outcome: "ack" });
        for (const record of group.records) if (isUnsent(record, group)) this.takeAck(record, request);
        group.unsent = 0;
        this.forgetIfDone(group);
        return true;
    }

    /** Acknowledges records of a group by their ack ids. Returns false if the request is full. */
    private takeOneByOne(group: Delivered, request: SettleRequest): boolean {
        for (const record of group.records) {
            if (!isUnsent(record, group)) continue;
            if (request.items.length >= ITEMS_MAX) return false;
            request.items.push({ ack_id: record.ackId, outcome: "ack" });
            this.takeAck(record, request);
            group.unsent--;
        }
        this.forgetIfDone(group);
        return true;
    }

    private takeAck(record: KinesisRecord, request: SettleRequest): void {
        this.take(record, request);
        this.ackCount--;
        this.ackBytes -= record.size;
    }

    private take(record: KinesisRecord, request: SettleRequest): void {
        record.sent = true;
        request.records.push(record);
    }

    /** Sends a request until the sidecar answers it, or until its session has ended. */
    private async deliver(request: SettleRequest): Promise<void> {
        this.pending = request;
        for (let failures = 1; request.generation === this.generation; failures++) {
            try {
                this.onAnswer(request, await this.post(request));
                break;
            } catch (error) {
                if (error instanceof SidecarError) {
                    this.onRefusal(request, error);
                    break;
                }
                if (this.closing && failures >= CLOSING_TRIES) {
                    this.stale += request.records.length;
                    break;
                }
                await this.pause(backoffMs(failures, error));
            }
        }
        this.pending = undefined;
    }

    private async post(request: SettleRequest): Promise<SettleAnswer> {
        const body = { settlements: request.items, ...(request.barrier && { barrier: String(request.number) }) };
        return (await this.options.api.call("POST", SETTLE_PATH, body, this.answerMs)) as SettleAnswer;
    }

    private onAnswer(request: SettleRequest, answer: SettleAnswer): void {
        if (request.generation !== this.generation) return;
        const refused = new Map<string, string>();
        for (const failure of answer.failed ?? []) {
            if (!isRefusal(failure, request)) continue;
            const { ack_id: ackId, reason, message } = failure;
            refused.set(ackId, reason);
            this.failed++;
            this.options.emit({ type: "settle_failed", ackId, reason, message });
        }
        this.holds.onAnswer(request.number, refused);
    }

    private onRefusal(request: SettleRequest, error: SidecarError): void {
        if (error.status !== 409 && error.status !== 410) return this.options.fail(error);
        if (request.generation !== this.generation) return;
        // The next session releases the scopes of its retries.
        this.stale += request.records.length;
    }

    /** Waits before a repetition. A new session and the close end the pause. */
    private async pause(ms: number): Promise<void> {
        await new Promise<void>((resolve) => {
            const timer = setTimeout(resolve, ms);
            this.endPause = () => {
                clearTimeout(timer);
                resolve();
            };
        });
    }

    // --- Extension ---

    private extendAll(): void {
        this.extendDue = true;
        this.leaseLost &&= this.pending !== undefined || [...this.groups].some(({ lost }) => lost);
        this.flush();
    }

    private async sendExtensions(): Promise<void> {
        this.extendDue = false;
        const items = this.openBatches();
        for (let at = 0; at < items.length; at += ITEMS_MAX) {
            const body = { settlements: items.slice(at, at + ITEMS_MAX) };
            // The next extension is a repetition, and records that are redelivered need none.
            await this.options.api.call("POST", SETTLE_PATH, body, this.answerMs).catch(() => {});
        }
    }

    private openBatches(): Settlement[] {
        const oldest = performance.now() - this.options.maxProcessingMs;
        return [...this.groups]
            .filter(({ open }) => open > 0)
            .flatMap((group) => extensionsOf(group, oldest))
            .map((id) => ({ ...id, outcome: "extend", delay_ms: this.ackDeadlineMs }));
    }

    // --- The lease table ---

    /** Asks for all records that wait for their checkpoint; those that come meanwhile wait for the next request. */
    private async waitForTable(): Promise<void> {
        this.waitingForTable = true;
        while (this.persistedWaiters.length > 0) {
            const waiters = this.persistedWaiters.splice(0, ITEMS_MAX);
            const isCovered = await this.askTable(waiters.map(({ record }) => record));
            for (const { record, resolve } of waiters) resolve(isCovered(record));
        }
        this.waitingForTable = false;
    }

    private async askTable(records: KinesisRecord[]): Promise<(record: KinesisRecord) => boolean> {
        const { generation } = this;
        const settlements = records.map(({ ackId }) => ({ ack_id: ackId, outcome: "ack" }));
        const body = { settlements, wait: "persisted", wait_ms: PERSISTED_WAIT_MS };
        for (let failures = 1; generation === this.generation && !this.closing; failures++) {
            try {
                const answer = await this.options.api.call(
                    "POST",
                    SETTLE_PATH,
                    body,
                    PERSISTED_WAIT_MS + ANSWER_MAX_MS,
                );
                return coveredBy(answer as SettleAnswer);
            } catch (error) {
                if (error instanceof SidecarError) break;
                await new Promise((resolve) => setTimeout(resolve, backoffMs(failures, error)));
            }
        }
        return () => false;
    }
}

/** Extends a group by one item, unless that extended a record which the app has for too long. */
function extensionsOf(group: Delivered, oldest: number): { ack_id?: string; batch_id?: string }[] {
    const open = group.records.filter((record) => record.group === group && !record.outcome && !record.dropped);
    const due = open.filter(({ since }) => (since ?? group.since) >= oldest);
    return due.length === open.length ? [{ batch_id: group.batchId }] : due.map(({ ackId }) => ({ ack_id: ackId }));
}

/** True if the acknowledgement of a record waits in the group. The lists of earlier groups have the record, too. */
const isUnsent = (record: KinesisRecord, group: Delivered) =>
    record.group === group && record.outcome === "ack" && !record.sent;

/**
 * True if an item counts as refused. A retry counts as accepted if the sidecar redelivers its record: an earlier copy of
 * the request, or a missed ack deadline, has taken the later records of the scope back.
 */
function isRefusal({ ack_id: ackId, reason }: Failure, { items }: SettleRequest): boolean {
    const outcome = items.find((item) => item.ack_id === ackId)?.outcome;
    return outcome !== "extend" && !(outcome === "retry" && REDELIVERED.includes(reason));
}

/** Returns the settlement of one record. */
function itemOf({ ackId, outcome, options: { delayMs, reason } }: KinesisRecord): Settlement {
    const item: Settlement = { ack_id: ackId, outcome: outcome! };
    if (delayMs !== undefined) item.delay_ms = Math.ceil(delayMs);
    if (reason) item.reason = cleanReason(reason);
    return item;
}

/** Returns the reason as JSON and the sidecar take it. */
function cleanReason(reason: string): string {
    // Bytes and back: half a surrogate pair is not UTF-8.
    return Buffer.from(reason).subarray(0, REASON_BYTES_MAX).toString().replaceAll("\0", "?");
}

/** Returns a test of whether the checkpoints of an answer cover a record that was acknowledged. */
function coveredBy(answer: SettleAnswer): (record: KinesisRecord) => boolean {
    const refused = new Set(answer.failed.map(({ ack_id: ackId }) => ackId));
    const checkpoints = new Map(answer.positions.map(({ shard_id: shardId, checkpoint }) => [shardId, checkpoint]));
    return (record) => {
        if (refused.has(record.ackId)) return false;
        if (answer.persisted) return true;
        const checkpoint = checkpoints.get(record.shardId) ?? "";
        if (!/^\d+$/.test(checkpoint)) return checkpoint === "SHARD_END";
        const distance = BigInt(checkpoint) - BigInt(record.sequenceNumber);
        return distance > 0n || (distance === 0n && record.subSequenceNumber === 0);
    };
}
