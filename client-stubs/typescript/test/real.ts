// SPDX-License-Identifier: Apache-2.0
// Starts the real sidecar, whose path is in KINESIS_SIDECAR_BIN, on a local stream.
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { request, type RequestOptions } from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until } from "./scripted.js";

async function freePort(): Promise<number> {
    const probe = createServer();
    await new Promise<void>((resolve) => probe.listen(0, "127.0.0.1", resolve));
    const { port } = probe.address() as { port: number };
    await new Promise((resolve) => probe.close(resolve));
    return port;
}

export interface Put {
    key?: string;
    value: unknown;
}

export class RealSidecar {
    readonly folder = mkdtempSync(join(tmpdir(), "kinesis-sidecar-"));
    url = "";
    private process: ChildProcess | undefined;
    private exited: Promise<unknown> = Promise.resolve();
    private arguments: string[] = [];
    private address: RequestOptions = {};
    private headers: Record<string, string> = {};

    async start(...more: string[]): Promise<this> {
        const listen = await freePort();
        const socket = more.includes("--listen")
            ? more[more.indexOf("--listen") + 1]!.slice("unix:".length)
            : undefined;
        this.url = socket ? `unix:${socket}` : `http://127.0.0.1:${listen}`;
        this.address = socket ? { socketPath: socket } : { host: "127.0.0.1", port: listen };
        this.arguments = [
            ...["--source", `local:${this.folder}/stream.db`, "--stream", "demo", "--application", "demo"],
            ...["--initial-position", "trim_horizon", "--state-dir", this.folder, "--local-shards", "2"],
            ...["--ops-listen", `127.0.0.1:${await freePort()}`, "--retry-backoff-ms", "50"],
            ...(socket ? [] : ["--listen", `127.0.0.1:${listen}`]),
            ...more,
        ];
        await this.restart();
        return this;
    }

    authorize(token: string): void {
        this.headers = { authorization: `Bearer ${token}` };
    }

    async restart(): Promise<void> {
        const binary = process.env.KINESIS_SIDECAR_BIN;
        if (!binary) throw new Error("KINESIS_SIDECAR_BIN must be the path of the kinesis-sidecar binary");
        const started = spawn(binary, this.arguments, { stdio: "ignore" });
        this.process = started;
        let ended: string | undefined;
        this.exited = new Promise<void>((resolve) => {
            const end = (how: unknown) => {
                ended = String(how);
                resolve();
            };
            started.on("error", end);
            started.on("exit", end);
        });
        await until("the sidecar is ready", async () => {
            if (ended !== undefined) throw new Error(`${binary} has ended: ${ended}`);
            const answer = await this.call("GET", "/v1/status").catch(() => undefined);
            return (answer as { ready?: boolean } | undefined)?.ready === true;
        });
    }

    async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
        this.process?.kill(signal);
        await this.exited;
    }

    async stop(): Promise<void> {
        await this.kill();
        rmSync(this.folder, { recursive: true });
    }

    async put(...records: Put[]): Promise<void> {
        const entries = records.map(({ key, value }) => ({
            PartitionKey: key ?? "k",
            Data: Buffer.from(JSON.stringify(value)).toString("base64"),
        }));
        await this.call("POST", "/v1/local/records", { Records: entries });
    }

    async deadLetters(): Promise<{ reason: string; data: string; attempts: number }[]> {
        return ((await this.call("GET", "/v1/dead-letters")) as { dead_letters: [] }).dead_letters;
    }

    /** True if everything that was put is delivered and settled. */
    async isSettled(records: number): Promise<boolean> {
        const { shards } = (await this.call("GET", "/v1/shards")) as {
            shards: { settled: number; watermark_gap: number }[];
        };
        const settled = shards.reduce((sum, shard) => sum + shard.settled, 0);
        return settled === records && shards.every((shard) => shard.watermark_gap === 0);
    }

    async sessions(): Promise<unknown[]> {
        return ((await this.call("GET", "/v1/sessions")) as { sessions: [] }).sessions;
    }

    call(method: string, path: string, body?: unknown): Promise<unknown> {
        return new Promise((resolve, reject) => {
            const headers = { ...this.headers, "content-type": "application/json" };
            const sent = request({ ...this.address, method, path, headers, agent: false }, (answer) => {
                let text = "";
                answer.on("data", (part) => (text += String(part)));
                answer.on("error", reject);
                answer.on("end", () => {
                    if (answer.statusCode === 200) resolve(JSON.parse(text));
                    else reject(new Error(`${answer.statusCode} ${text}`));
                });
            });
            sent.on("error", reject);
            sent.end(body === undefined ? undefined : JSON.stringify(body));
        });
    }
}
