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

    /** Queues a delivery. */
    public function offer(Delivery $delivery): void;

    /**
     * Queues deliveries before all others.
     *
     * @param list<Delivery> $deliveries in their order
     */
    public function putBack(array $deliveries): void;

    /** Notes that a delivery is not at a process any more. */
    public function left(Delivery $delivery): void;

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
