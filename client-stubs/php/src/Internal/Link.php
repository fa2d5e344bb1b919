<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

use KinesisSidecar\Outcome;
use KinesisSidecar\Record;

/**
 * Source of the records of a consumer, and destination of their outcomes. The order of `take()` numbers the records.
 *
 * @internal
 */
interface Link
{
    /**
     * Waits until `$count` records are queued.
     *
     * @param float|null $seconds limit of the wait; null: none
     *
     * @return int how many are queued; 0 also after a stop
     */
    public function await(int $count, ?float $seconds): int;

    /** Takes the next queued record. */
    public function take(): Record;

    public function ack(int $number): void;

    public function settle(int $number, Outcome $outcome, ?float $delay, string $reason): void;

    /** Acknowledges, and returns whether the checkpoint covers the record. */
    public function persist(int $number): bool;

    public function extend(int $number, float $seconds): void;

    /**
     * Gives back the records from a number on that have no outcome. They are queued again, in order, unless they are
     * redelivered.
     */
    public function giveBack(int $number): void;

    /** Lets `await()` return 0 from now on. */
    public function stop(): void;

    /** Sends the outcomes and ends the session. */
    public function close(): void;
}
