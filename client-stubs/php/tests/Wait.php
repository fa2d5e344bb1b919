<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

/**
 * Waits for facts.
 */
final class Wait
{
    private const SECONDS = 20;

    /** @param \Closure(): bool $fact */
    public static function until(\Closure $fact): void
    {
        $until = time() + self::SECONDS;
        while (!$fact()) {
            time() < $until || throw new \RuntimeException('a fact did not come true');
            usleep(20000);
        }
    }
}
