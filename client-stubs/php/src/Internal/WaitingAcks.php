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

    /** Ends the lease of a shard: no record of it may be begun any more. Records that are redriven have no lease. */
    public function loseShard(string $shard): void
    {
        foreach ($this->open as $batch) {
            $batch->current = $batch->current && ($batch->shard !== $shard || $batch->redriven);
        }
    }

    /** Tells whether records that may not be begun any more have no outcome. */
    public function hasLost(): bool
    {
        return in_array(false, array_column($this->open, 'current'), true);
    }

    public function ack(Delivery $delivery, float $now): void
    {
        $batch = $delivery->batch;
        $delivery->open = false;
        $batch->acked[spl_object_id($delivery)] = $delivery;
        $this->note($batch, 1, $delivery->bytes(), $now);
    }

    /** Acknowledges the next `$count` records of a run. */
    public function ackRun(Run $run, int $count, float $now): void
    {
        $this->note($run->batch(), $count, intdiv($run->bytes * $count, $run->count), $now);
    }

    private function note(WireBatch $batch, int $count, int $bytes, float $now): void
    {
        $batch->open -= $count;
        if ($batch->ackedCount === 0) {
            $batch->ackedAt = $now;
            $this->waiting[$batch->id] = $batch;
        }
        $batch->ackedCount += $count;
        $batch->ackedBytes += $bytes;
        $this->records += $count;
        $this->bytes += $bytes;
    }

    /** Ends a delivery whose outcome is sent apart, or that was dropped. */
    public function remove(Delivery $delivery): void
    {
        $delivery->batch->remove($delivery);
        $this->forget($delivery->batch);
    }

    /** Ends a delivery whose record is redelivered, and forgets its acknowledgement. */
    public function leave(Delivery $delivery): void
    {
        $batch = $delivery->batch;
        if (isset($batch->acked[spl_object_id($delivery)])) {
            unset($batch->acked[spl_object_id($delivery)]);
            $batch->divided = true;
            $batch->ackedCount--;
            $batch->ackedBytes -= $delivery->bytes();
            $this->records--;
            $this->bytes -= $delivery->bytes();
        }
        $this->remove($delivery);
    }

    /**
     * Returns the deliveries of batches with a record that has no outcome, or an acknowledgement that was not sent.
     *
     * @return list<Delivery>
     */
    public function deliveries(): array
    {
        $deliveries = [];
        foreach ($this->open as $batch) {
            $batch->split();
            array_push($deliveries, ...$batch->deliveries);
        }

        return $deliveries;
    }

    /**
     * Returns the deliveries whose acknowledgements were not sent.
     *
     * @return list<Delivery>
     */
    public function unsent(): array
    {
        $unsent = [];
        foreach ($this->waiting as $batch) {
            $batch->split();
            array_push($unsent, ...$batch->acked);
        }

        return $unsent;
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
     * Takes the acknowledgements of whole batches, and the others that are due.
     *
     * @param float $now INF: all
     *
     * @return list<Settlement>
     */
    public function take(float $now = INF): array
    {
        $items = [];
        foreach ($this->waiting as $batch) {
            if ($batch->isWhole() || $batch->ackedAt + $this->interval <= $now) {
                array_push($items, ...$this->settle($batch));
            }
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
            if (!$batch->hasOlder($notBefore)) {
                $items[] = Settlement::ofBatch($batch, 'extend', $delay);
                continue;
            }
            foreach ($batch->openSince($notBefore) as $delivery) {
                $items[] = Settlement::ofDelivery($delivery, 'extend', $delay);
            }
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
        $unsent = $this->unsent();
        foreach ($this->open + $this->waiting as $batch) {
            $batch->release();
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
        $this->records -= $batch->ackedCount;
        $this->bytes -= $batch->ackedBytes;
        $batch->ackedCount = $batch->ackedBytes = 0;
        if ($batch->isWhole()) {
            unset($this->open[$batch->id]);

            return [Settlement::ofBatch($batch, 'ack')];
        }
        $batch->divided = true;
        $batch->split();
        $items = array_map(static fn ($delivery) => Settlement::ofDelivery($delivery, 'ack'), $batch->acked);
        $batch->acked = [];
        $this->forget($batch);

        return array_values($items);
    }

    /** Lets a batch go that has nothing to extend and nothing to send. */
    private function forget(WireBatch $batch): void
    {
        if ($batch->open === 0 && $batch->complete && $batch->ackedCount === 0 && isset($this->open[$batch->id])) {
            $batch->release();
            unset($this->open[$batch->id]);
        }
    }
}
