<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

use KinesisSidecar\Internal\Delivery;
use KinesisSidecar\Internal\Line;
use KinesisSidecar\Internal\WireBatch;

/**
 * Makes deliveries for tests.
 */
final class Deliveries
{
    /** @param array<string, mixed> $members */
    public static function make(int $number, array $members = []): Delivery
    {
        $members += ['ack_id' => "a$number", 'shard_id' => 's', 'sequence_number' => (string) $number];

        return new Delivery(Line::of($members), new WireBatch("b$number", $members['shard_id'], 1, 0.0), $number);
    }

    /**
     * @param list<Delivery> $deliveries
     *
     * @return list<int> their numbers
     */
    public static function numbers(array $deliveries): array
    {
        return array_map(static fn (Delivery $delivery): int => (int) substr($delivery->ackId(), 1), $deliveries);
    }
}
