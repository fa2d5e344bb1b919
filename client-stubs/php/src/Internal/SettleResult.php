<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

/**
 * Answer of a settle request.
 *
 * @internal
 */
final class SettleResult
{
    /**
     * @param list<Settlement>            $items
     * @param array<array<string, mixed>> $failed items that count as refused
     * @param bool                        $stale  the session of all items has ended
     */
    public function __construct(
        public readonly array $items,
        public readonly array $failed,
        public readonly bool $stale,
    ) {
    }
}
