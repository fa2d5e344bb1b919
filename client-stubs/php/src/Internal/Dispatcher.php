<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

/**
 * Gives deliveries to the processes of the app.
 *
 * @internal
 */
interface Dispatcher
{
    public function attach(Port $port): void;

    public function detach(Port $port): void;

    /** Queues deliveries. Those that are dropped meanwhile are not sent. */
    public function offer(Delivery ...$deliveries): void;

    /** Sends a run at once. Returns false if it cannot: its records are to be offered one by one. */
    public function send(Run $run): bool;

    /**
     * Queues deliveries that were at a process, in the order of arrival.
     *
     * @param list<Delivery> $deliveries
     */
    public function putBack(array $deliveries): void;

    /** Notes that deliveries are not at a process any more. */
    public function left(Delivery ...$deliveries): void;

    /**
     * Removes and returns queued deliveries.
     *
     * @param \Closure(Delivery): bool $isWanted
     *
     * @return list<Delivery>
     */
    public function withdraw(\Closure $isWanted): array;

    /** Sends what the processes take. */
    public function pump(): void;
}
