// SPDX-License-Identifier: Apache-2.0
// A small sidecar in process that does what a test tells it, and keeps the requests that it got.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface Settled {
    settlements: { ack_id?: string; batch_id?: string; outcome: string; delay_ms?: number; reason?: string }[];
    barrier?: string;
    wait?: string;
}

/** A member of a message: a number is a varint, text and bytes are length-delimited. */
type Member = [field: number, value: number | string | Buffer];

function varint(value: number): Buffer {
    const bytes: number[] = [];
    for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) + 128);
    return Buffer.from([...bytes, value]);
}

export function message(...members: Member[]): Buffer {
    const parts = members.map(([field, value]) => {
        if (typeof value === "number") return Buffer.concat([varint(field * 8), varint(value)]);
        const bytes = Buffer.from(value as string);
        return Buffer.concat([varint(field * 8 + 2), varint(bytes.length), bytes]);
    });
    return Buffer.concat(parts);
}

export function frame(field: number, content: Buffer): Buffer {
    const event = message([field, content]);
    return Buffer.concat([varint(event.length), event]);
}

export const sessionFrame = (more: { heartbeatMs?: number; ackDeadlineMs?: number; maxInFlight?: number } = {}) =>
    frame(
        1,
        message(
            [1, "me"],
            [2, "me"],
            [3, "00000000000000ab"],
            [4, more.maxInFlight ?? 1000],
            [5, 16 << 20],
            [6, more.ackDeadlineMs ?? 60_000],
            [7, more.heartbeatMs ?? 10_000],
        ),
    );

export interface RecordLike {
    n: number;
    ackId?: string;
    batchId?: string;
    shardId?: string;
    epoch?: number;
    key?: string;
    attempt?: number;
    lane?: number;
    redriven?: boolean;
    data?: string | Buffer;
}

export function recordFrame(record: RecordLike): Buffer {
    const { n, ackId, batchId, shardId, epoch, key, attempt, lane, redriven, data } = record;
    return frame(
        2,
        message(
            [1, ackId ?? `ack-${n}-${attempt ?? 1}`],
            [2, batchId ?? "batch-1"],
            [3, "stream"],
            [4, shardId ?? "shardId-000000000000"],
            [5, epoch ?? 3],
            [6, String(1000 + n)],
            [8, key ?? "k"],
            [9, 1763685600123],
            [10, attempt ?? 1],
            [12, data ?? JSON.stringify({ n })],
            ...(redriven ? ([[13, 1]] as Member[]) : []),
            ...(lane ? ([[14, lane]] as Member[]) : []),
        ),
    );
}

export const heartbeatFrame = frame(3, message([1, 0], [2, 1000], [3, 1]));
export const barrierFrame = (barrier: string) => frame(11, message([1, barrier]));
export const leaseLostFrame = frame(6, message([1, "shardId-000000000000"]));
export const endedFrame = (reason: number) => frame(7, message([1, reason]));

type Answer = (request: Settled, response: ServerResponse) => void;

export function answerJson(response: ServerResponse, status: number, body: object, headers = {}): void {
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(JSON.stringify(body));
}

export const problem = (status: number, type = "x") => ({
    type: `urn:kinesis-sidecar:problem:${type}`,
    code: "some_code",
    detail: `a sentence about ${status}`,
});

export const accepted = { ok: 1, failed: [], persisted: false, positions: [] };

export class ScriptedSidecar {
    url = "";
    /** Open streams, the newest last. */
    readonly streams: ServerResponse[] = [];
    readonly streamRequests: IncomingMessage[] = [];
    readonly settled: Settled[] = [];
    readonly settleTokens: (string | undefined)[] = [];
    deleted = 0;
    /** Says what happens to a stream request; default: 200 and the session. */
    onStream: (response: ServerResponse, count: number) => void = (response) => this.begin(response);
    /** Says what happens to a settle request; default: accepted, and the barrier on the newest stream. */
    onSettle: Answer = (request, response) => {
        if (request.barrier) this.write(barrierFrame(request.barrier));
        answerJson(response, 200, accepted);
    };
    private readonly server: Server = createServer((request, response) => void this.serve(request, response));

    async start(): Promise<this> {
        await new Promise<void>((resolve) => this.server.listen(0, "127.0.0.1", resolve));
        this.url = `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
        return this;
    }

    begin(response: ServerResponse, session = sessionFrame()): void {
        response.writeHead(200, { "content-type": "application/x-protobuf" });
        response.write(session);
        this.streams.push(response);
    }

    write(...frames: Buffer[]): void {
        this.streams.at(-1)!.write(Buffer.concat(frames));
    }

    /** All items of settle requests so far that are not extensions. */
    items(): Settled["settlements"] {
        return this.settled.flatMap(({ settlements }) => settlements).filter(({ outcome }) => outcome !== "extend");
    }

    stop(): void {
        this.server.close();
        this.server.closeAllConnections();
    }

    private async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
        if (request.method === "GET") {
            this.streamRequests.push(request);
            this.onStream(response, this.streamRequests.length);
            return;
        }
        let body = "";
        for await (const part of request) body += String(part);
        if (request.method === "DELETE") {
            this.deleted++;
            answerJson(response, 200, {});
            return;
        }
        const settled = JSON.parse(body) as Settled;
        this.settled.push(settled);
        this.settleTokens.push(request.headers.authorization);
        this.onSettle(settled, response);
    }
}

const POLL_MS = 5;
const PATIENCE_MS = 60_000;

/** Waits until a fact is true. The limit is only for a test that is broken. */
export async function until(what: string, fact: () => boolean | Promise<boolean>): Promise<void> {
    const end = Date.now() + PATIENCE_MS;
    while (!(await fact())) {
        if (Date.now() > end) throw new Error(`still not true: ${what}`);
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
}
