// SPDX-License-Identifier: Apache-2.0

/** The sidecar refused a request. */
export class SidecarError extends Error {
    override readonly name: string = "SidecarError";

    /**
     * @param status HTTP status of the answer.
     * @param code Short reason, for example `invalid_argument`.
     * @param detail Sentence of the sidecar.
     */
    constructor(
        readonly status: number,
        readonly code: string,
        readonly detail: string,
    ) {
        super(`${status} ${code}: ${detail}`);
    }
}

/** Another process opened a stream with the same client id. The consumer does not connect again. */
export class SessionTakenOver extends SidecarError {
    override readonly name = "SessionTakenOver";

    constructor(clientId: string) {
        super(409, "session-taken-over", `another process opened a stream with the client_id ${clientId}`);
    }
}
