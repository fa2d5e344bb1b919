<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

/**
 * Records with one `batch_id`, in the order of arrival.
 *
 * @internal
 */
final class WireBatch
{
    /** @var list<Delivery> */
    public array $deliveries = [];

    /** @var list<Delivery> acknowledged, and not sent yet */
    public array $acked = [];

    /** Time of the first of `acked`. */
    public float $ackedAt = 0.0;

    /** Records without an outcome. */
    public int $open = 0;

    /** A record of another batch followed. */
    public bool $complete = false;

    /** Some records are settled, or dropped, apart from the others. */
    public bool $divided = false;

    /** Handlers may begin its records: the connection that brought them, and the lease of their shard, are there. */
    public bool $current = true;

    public function __construct(
        public readonly string $id,
        public readonly string $shard,
        public readonly int $generation,
        public readonly float $receivedAt,
    ) {
    }

    /** One item of a request may acknowledge the batch. */
    public function isWhole(): bool
    {
        return $this->complete && $this->open === 0 && !$this->divided;
    }

    /** Adds a delivery. */
    public function add(Delivery $delivery): void
    {
        $this->deliveries[] = $delivery;
        $this->open++;
    }

    /** Ends a delivery that does not become an acknowledgement of the batch. */
    public function remove(Delivery $delivery): void
    {
        if ($delivery->open) {
            $delivery->open = false;
            $this->open--;
            $this->divided = true;
        }
    }
}
