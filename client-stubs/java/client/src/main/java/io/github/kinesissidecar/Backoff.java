// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.util.concurrent.ThreadLocalRandom;

/** The waits between tries: 0.1 s, doubled up to 5 s, with jitter, and not less than the sidecar asks for. */
final class Backoff {
    private static final long FIRST_MS = 100;
    private static final long MAX_MS = 5_000;

    private long pauseMs = FIRST_MS;

    long next(long retryAfterMs) {
        long pause = ThreadLocalRandom.current().nextLong(pauseMs / 2, pauseMs + 1);
        pauseMs = Math.min(pauseMs * 2, MAX_MS);
        return Math.max(pause, retryAfterMs);
    }

    void reset() {
        pauseMs = FIRST_MS;
    }
}
