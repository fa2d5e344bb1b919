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
    /** @var list<Delivery> without those of `runs` */
    public array $deliveries = [];

    /** @var array<int, Delivery> acknowledged, and not sent yet, by object id; without those of `runs` */
    public array $acked = [];

    /** Records that are acknowledged, and not sent yet. */
    public int $ackedCount = 0;

    /** Bytes of these records. */
    public int $ackedBytes = 0;

    /** Time of the first of these acknowledgements. */
    public float $ackedAt = 0.0;

    /** Records without an outcome. */
    public int $open = 0;

    /** A record of another batch followed. */
    public bool $complete = false;

    /** Some records are settled, or dropped, apart from the others. */
    public bool $divided = false;

    /** The sidecar has answered the item that acknowledged the batch. */
    public bool $confirmed = false;

    /** Handlers may begin its records: the connection that brought them, and the lease of their shard, are there. */
    public bool $current = true;

    /** @var array<int, Run> by object id */
    private array $runs = [];

    public function __construct(
        public readonly string $id,
        public readonly string $shard,
        public readonly int $generation,
        public readonly float $receivedAt,
        public readonly bool $redriven = false,
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

    public function addRun(Run $run): void
    {
        $this->runs[spl_object_id($run)] = $run;
        $this->open += $run->count;
    }

    public function forgetRun(Run $run): void
    {
        unset($this->runs[spl_object_id($run)]);
    }

    /** Makes a delivery of each record. */
    public function split(): void
    {
        foreach ($this->runs as $run) {
            $run->split();
        }
    }

    /** Tells whether a record has no outcome that the app has from before `$time`, by an earlier delivery. */
    public function hasOlder(float $time): bool
    {
        $older = static fn (Delivery $delivery): bool => $delivery->since !== null && $delivery->since < $time;

        return array_filter($this->open(), $older) !== [];
    }

    /**
     * Returns the other records without an outcome.
     *
     * @return list<Delivery>
     */
    public function openSince(float $time): array
    {
        $this->split();
        $younger = static fn (Delivery $delivery): bool => ($delivery->since ?? $time) >= $time;

        return array_values(array_filter($this->open(), $younger));
    }

    /** @return array<int, Delivery> without those of `runs`, and without those that were redelivered since */
    private function open(): array
    {
        return array_filter($this->deliveries, fn (Delivery $one): bool => $one->batch === $this && $one->open);
    }

    /** Breaks the cycles of the batch and its records. */
    public function release(): void
    {
        $this->deliveries = $this->acked = $this->runs = [];
    }

    /** Returns how many records it has. */
    public function size(): int
    {
        return count($this->deliveries) + array_sum(array_column($this->runs, 'count'));
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
