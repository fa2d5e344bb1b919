<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar;

/**
 * Records that `Consumer::batches()` hands out together.
 *
 * @implements \IteratorAggregate<int, Record>
 */
final class Batch implements \IteratorAggregate, \Countable
{
    /**
     * @internal batches are made by a consumer
     *
     * @param list<Record> $records in the order of delivery
     */
    public function __construct(public readonly array $records)
    {
    }

    /** @return \ArrayIterator<int, Record> */
    public function getIterator(): \ArrayIterator
    {
        return new \ArrayIterator($this->records);
    }

    public function count(): int
    {
        return count($this->records);
    }

    /** Acknowledges the records that have no outcome. */
    public function ack(): void
    {
        foreach ($this->records as $record) {
            $record->ack();
        }
    }

    /** Retries the records that have no outcome; see `Record::retry()`. */
    public function retry(?float $delay = null, string $reason = ''): void
    {
        // A retry takes back the later records of its shard: the last one is retried first, so that all retries count.
        foreach (array_reverse($this->records) as $record) {
            $record->retry($delay, $reason);
        }
    }
}
