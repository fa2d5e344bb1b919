// SPDX-License-Identifier: Apache-2.0
// HTTP to the sidecar: its address, the bearer token, requests, and answers that are errors.
import { readFileSync } from "node:fs";
import { Agent, request, type ClientRequest, type IncomingMessage, type RequestOptions } from "node:http";
import { SidecarError } from "./errors.js";

const DEFAULT_URL = "http://127.0.0.1:8990";
const BACKOFF_FIRST_MS = 100;
const BACKOFF_MAX_MS = 5000;
const RETRYABLE = new Set([429, 500, 502, 503, 504]);

/** The sidecar cannot answer now; the same request may succeed later. */
export class Unavailable extends Error {
    override readonly name = "Unavailable";

    constructor(
        message: string,
        readonly retryAfterMs = 0,
    ) {
        super(message);
    }
}

/** Body of an error answer (RFC 9457), as far as it is used. */
interface Problem {
    type?: string;
    code?: string;
    detail?: string;
    title?: string;
}

/** Returns how long to wait before try number `failures`, from 1: doubled up to 5 s, with jitter. */
export function backoffMs(failures: number, error: unknown): number {
    const pause = Math.min(BACKOFF_FIRST_MS * 2 ** Math.min(failures - 1, 10), BACKOFF_MAX_MS);
    const jittered = pause * (0.5 + Math.random() / 2);
    return Math.max(jittered, error instanceof Unavailable ? error.retryAfterMs : 0);
}

/** Returns the host of a URL as `net` takes it, or the path of a Unix socket. */
function addressOf(url: string): RequestOptions {
    if (url.startsWith("unix:/")) return { socketPath: url.slice("unix:".length), headers: { host: "localhost" } };
    const parsed = URL.canParse(url) ? new URL(url) : undefined;
    if (parsed?.protocol !== "http:" || !parsed.hostname)
        throw new Error(`the address of the sidecar must be http://HOST:PORT or unix:/PATH, got ${url}`);
    return { host: parsed.hostname.replace(/^\[|\]$/g, ""), port: Number(parsed.port || 80) };
}

/** Milliseconds of a Retry-After header that has seconds. */
function retryAfterMs(answer: IncomingMessage): number {
    const seconds = Number(answer.headers["retry-after"]);
    return seconds > 0 ? seconds * 1000 : 0;
}

/** Makes an error of an answer that is not 200. */
function refusal(answer: IncomingMessage, body: string): Error {
    let problem: Problem = {};
    try {
        problem = (JSON.parse(body) ?? {}) as Problem;
    } catch {
        // The HTTP library of the sidecar, or a proxy, answers some errors with HTML.
    }
    const status = answer.statusCode ?? 0;
    const detail = problem.detail ?? problem.title ?? answer.statusMessage ?? "refused";
    const conflict = status === 409 && problem.type?.endsWith("ordering-conflict");
    if (RETRYABLE.has(status) || conflict) return new Unavailable(`${status}: ${detail}`, retryAfterMs(answer));
    return new SidecarError(status, problem.code ?? "", detail);
}

async function textOf(answer: IncomingMessage): Promise<string> {
    const parts: Buffer[] = [];
    for await (const part of answer) parts.push(part as Buffer);
    return Buffer.concat(parts).toString();
}

/** Sends a request and lets `read` take its answer. Gives up if `read` has not ended after `timeoutMs`. */
async function exchange<T>(
    sent: ClientRequest,
    payload: string | undefined,
    timeoutMs: number,
    read: (answer: IncomingMessage) => Promise<T>,
): Promise<T> {
    const timer = setTimeout(() => sent.destroy(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
    try {
        const answer = await new Promise<IncomingMessage>((resolve, reject) => {
            sent.on("response", resolve);
            sent.on("error", reject);
            sent.end(payload);
        });
        return await read(answer);
    } finally {
        clearTimeout(timer);
    }
}

export class Api {
    private readonly address: RequestOptions;
    private readonly tokenFile: string | undefined;
    /** Settle requests have a connection of their own; one that waits for a checkpoint has another. */
    private readonly agent = new Agent({ keepAlive: true });

    constructor(url: string | undefined, tokenFile: string | undefined) {
        this.address = addressOf(url ?? (process.env.KINESIS_SIDECAR_URL || DEFAULT_URL));
        this.tokenFile = tokenFile ?? (process.env.KINESIS_SIDECAR_TOKEN_FILE || undefined);
    }

    /** Sends a request that may be repeated, and returns its JSON answer. */
    async call(method: string, path: string, body: unknown, timeoutMs: number): Promise<unknown> {
        const payload = body === undefined ? undefined : JSON.stringify(body);
        const headers: Record<string, string | number> = payload
            ? { "content-type": "application/json", "content-length": Buffer.byteLength(payload) }
            : {};
        return exchange(this.request(method, path, headers, this.agent), payload, timeoutMs, async (answer) => {
            const text = await textOf(answer);
            if (answer.statusCode !== 200) throw refusal(answer, text);
            return JSON.parse(text || "{}") as unknown;
        });
    }

    /** Opens a stream and returns its answer, whose body has no end. */
    async open(path: string, timeoutMs: number, signal: AbortSignal): Promise<IncomingMessage> {
        const sent = this.request("GET", path, { accept: "application/x-protobuf" }, false, signal);
        return exchange(sent, undefined, timeoutMs, async (answer) => {
            if (answer.statusCode !== 200) throw refusal(answer, await textOf(answer));
            return answer;
        });
    }

    close(): void {
        this.agent.destroy();
    }

    private request(
        method: string,
        path: string,
        headers: Record<string, string | number>,
        agent: Agent | false,
        signal?: AbortSignal,
    ): ClientRequest {
        // Read for each request, because tokens are rotated.
        const token = this.tokenFile && readFileSync(this.tokenFile, "utf8").trim();
        return request({
            ...this.address,
            method,
            path,
            agent,
            headers: { ...this.address.headers, ...headers, ...(token && { authorization: `Bearer ${token}` }) },
            ...(signal && { signal }),
        });
    }
}
