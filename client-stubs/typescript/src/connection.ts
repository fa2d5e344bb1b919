// SPDX-License-Identifier: Apache-2.0
// Keeps one stream open: connects, reads, and connects again after trouble.
import type { IncomingMessage } from "node:http";
import { backoffMs, type Api } from "./api.js";
import { SidecarError } from "./errors.js";
import type { StreamSink } from "./wire.js";
import { StreamReader } from "./wire.js";

const CONNECT_MS = 5000;
const HEARTBEATS_MISSED = 3;

export interface ConnectionSink extends StreamSink {
    /** The connection is lost, or there is none yet. */
    onDisconnected(reason: string, retryInMs: number): void;
}

export class Connection {
    private readonly abort = new AbortController();
    /** Silence after which the connection counts as lost. */
    private silenceMs = CONNECT_MS;
    private failures = 0;

    constructor(
        private readonly api: Api,
        private readonly path: string,
        private readonly sink: ConnectionSink,
    ) {}

    /** A session began on the connection. */
    opened(heartbeatMs: number): void {
        this.silenceMs = HEARTBEATS_MISSED * heartbeatMs + 1000;
        this.failures = 0;
    }

    /** Runs until `close`. Rejects with what makes another connection useless. */
    async run(): Promise<void> {
        const { signal } = this.abort;
        while (!signal.aborted) {
            try {
                await this.read(await this.api.open(this.path, CONNECT_MS, signal));
            } catch (error) {
                if (signal.aborted) return;
                if (error instanceof SidecarError) throw error;
                await this.pause(error as Error);
            }
        }
    }

    close(): void {
        this.abort.abort();
    }

    /** Reads the stream until it breaks. */
    private async read(answer: IncomingMessage): Promise<never> {
        const reader = new StreamReader(this.sink);
        this.silenceMs = CONNECT_MS;
        let heardAt = performance.now();
        const watch = setInterval(() => {
            if (performance.now() - heardAt < this.silenceMs) return;
            // The event loop may have been blocked for that long: what has arrived meanwhile is read first.
            setImmediate(() => {
                if (performance.now() - heardAt >= this.silenceMs)
                    answer.destroy(new Error(`no heartbeat for ${this.silenceMs} ms`));
            });
        }, 250);
        try {
            return await new Promise<never>((_resolve, reject) => {
                answer.on("data", (chunk: Buffer) => {
                    heardAt = performance.now();
                    try {
                        reader.push(chunk);
                    } catch (error) {
                        answer.destroy(error as Error);
                    }
                });
                answer.on("error", reject);
                answer.on("close", () => reject(new Error("the sidecar ended the stream")));
            });
        } finally {
            clearInterval(watch);
        }
    }

    private async pause(error: Error): Promise<void> {
        const ms = backoffMs(++this.failures, error);
        this.sink.onDisconnected(reasonOf(error), Math.round(ms));
        await new Promise<void>((resolve) => {
            const timer = setTimeout(resolve, ms);
            this.abort.signal.addEventListener("abort", () => {
                clearTimeout(timer);
                resolve();
            });
        });
    }
}

function reasonOf(error: Error): string {
    // Node gives several addresses of a host that refuse the connection as an AggregateError without a message.
    return error.message || (error as NodeJS.ErrnoException).code || error.name;
}
