<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

/**
 * The batches of a session, and the acknowledgements that wait for others.
 *
 * @internal
 */
final class WaitingAcks
{
    /** @var array<string, WireBatch> batches with records that have no outcome */
    private array $open = [];

    /** @var array<string, WireBatch> batches with acknowledgements that were not sent */
    private array $waiting = [];

    /** The batch of the last record. */
    private ?WireBatch $arriving = null;

    private int $records = 0;
    private int $bytes = 0;

    public function __construct(private readonly float $interval)
    {
    }

    /** Begins a batch, which completes the last one. */
    public function begin(WireBatch $batch): void
    {
        if ($this->arriving !== null) {
            $this->arriving->complete = true;
            $this->forget($this->arriving);
        }
        $this->open[$batch->id] = $this->arriving = $batch;
    }

    /** Ends the connection: the last batch may have records that never arrived. No record may be begun any more. */
    public function cut(): void
    {
        $this->arriving = null;
        foreach ($this->open as $batch) {
            $batch->current = false;
        }
    }

    /** Ends the lease of a shard: no record of it may be begun any more. */
    public function loseShard(string $shard): void
    {
        foreach ($this->open as $batch) {
            $batch->current = $batch->current && $batch->shard !== $shard;
        }
    }

    public function ack(Delivery $delivery, float $now): void
    {
        $batch = $delivery->batch;
        $delivery->open = false;
        $batch->open--;
        if ($batch->acked === []) {
            $batch->ackedAt = $now;
            $this->waiting[$batch->id] = $batch;
        }
        $batch->acked[] = $delivery;
        $this->records++;
        $this->bytes += $delivery->bytes();
    }

    /** Ends a delivery whose outcome is sent apart, or that was dropped. */
    public function remove(Delivery $delivery): void
    {
        $delivery->batch->remove($delivery);
        $this->forget($delivery->batch);
    }

    /** Returns when acknowledgements have to leave at the latest; null if none wait. */
    public function due(): ?float
    {
        foreach ($this->waiting as $batch) {
            return $batch->ackedAt + $this->interval;
        }

        return null;
    }

    public function isFull(int $records, int $bytes): bool
    {
        return $this->records > 0 && (2 * $this->records >= $records || 2 * $this->bytes >= $bytes);
    }

    /**
     * Takes the acknowledgements that wait.
     *
     * @param bool $partly leaves those of batches that are not complete, if there are others
     *
     * @return list<Settlement>
     */
    public function take(bool $partly = false): array
    {
        $taken = $partly ? array_filter($this->waiting, static fn ($batch) => $batch->isWhole()) : [];
        $items = [];
        foreach ($taken ?: $this->waiting as $batch) {
            array_push($items, ...$this->settle($batch));
        }

        return $items;
    }

    /**
     * Returns the extensions of all batches with a record that has no outcome.
     *
     * @return list<Settlement>
     */
    public function extensions(int $delayMs, float $notBefore): array
    {
        $items = [];
        $delay = ',"delay_ms":' . $delayMs;
        foreach ($this->open as $batch) {
            if ($batch->open === 0 || $batch->receivedAt < $notBefore) {
                continue;
            }
            $items[] = Settlement::ofBatch($batch, 'extend', $delay);
        }

        return $items;
    }

    /**
     * Ends the session. Returns the deliveries whose acknowledgements were not sent.
     *
     * @return list<Delivery>
     */
    public function reset(): array
    {
        $unsent = array_merge(...array_map(static fn ($batch) => $batch->acked, array_values($this->waiting)));
        foreach ($this->open + $this->waiting as $batch) {
            // Breaks the cycles of batch and deliveries.
            $batch->deliveries = $batch->acked = [];
        }
        $this->open = $this->waiting = [];
        $this->arriving = null;
        $this->records = $this->bytes = 0;

        return $unsent;
    }

    /** @return list<Settlement> */
    private function settle(WireBatch $batch): array
    {
        unset($this->waiting[$batch->id]);
        $this->records -= count($batch->acked);
        foreach ($batch->acked as $delivery) {
            $this->bytes -= $delivery->bytes();
        }
        if ($batch->isWhole()) {
            $items = [Settlement::ofBatch($batch, 'ack')];
        } else {
            $batch->divided = true;
            $items = array_map(static fn ($delivery) => Settlement::ofDelivery($delivery, 'ack'), $batch->acked);
        }
        $batch->acked = [];
        $this->forget($batch);

        return $items;
    }

    /** Lets a batch go that has nothing to extend and nothing to send. */
    private function forget(WireBatch $batch): void
    {
        if ($batch->open === 0 && $batch->complete && $batch->acked === []) {
            $batch->deliveries = [];
            unset($this->open[$batch->id]);
        }
    }
}
