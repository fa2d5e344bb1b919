<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

/**
 * Pauses of 0.1 s, doubled up to 5 s, with jitter.
 *
 * @internal
 */
final class Backoff
{
    private const FIRST_SECONDS = 0.1;
    private const MAX_SECONDS = 5.0;

    private float $next = self::FIRST_SECONDS;

    /** Returns the seconds to wait, `$atLeast` or more. */
    public function pause(float $atLeast = 0.0): float
    {
        $pause = $this->next * (0.5 + mt_rand() / mt_getrandmax() / 2);
        $this->next = min(2 * $this->next, self::MAX_SECONDS);

        return max($pause, $atLeast);
    }

    public function reset(): void
    {
        $this->next = self::FIRST_SECONDS;
    }
}
