// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Assertions;

/** Waits for facts. The limit is generous, because a loaded machine is slow. A test may take 60 s. */
final class Eventually {
    private static final long LIMIT_NANOS = 50_000_000_000L;

    private Eventually() {
    }

    static void until(String what, BooleanSupplier fact) throws InterruptedException {
        long begin = System.nanoTime();
        while (!fact.getAsBoolean()) {
            if (System.nanoTime() - begin > LIMIT_NANOS)
                Assertions.fail("not within 50 s: " + what);
            Thread.sleep(10);
        }
    }
}
