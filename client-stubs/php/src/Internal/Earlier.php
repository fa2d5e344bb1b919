<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

/**
 * Deliveries of a session that a redelivery may concern, and some that are confirmed. It costs less to collect all
 * again now and then than to remove each one that is confirmed.
 *
 * @internal
 */
final class Earlier
{
    /** @var array<string, Delivery> the last deliveries by identity of the record */
    private array $deliveries = [];

    /** @var array<string, list<Delivery>> those that may be taken back, by scope, in the order of arrival */
    private array $open = [];

    /** Deliveries when it was made. */
    private readonly int $first;

    /** Bytes of the deliveries that were added since. */
    private int $bytes = 0;

    /** @param array<Delivery> $deliveries each of them once or more */
    public function __construct(private readonly Scopes $names, array $deliveries)
    {
        $ids = array_map('spl_object_id', $deliveries);
        array_map($this->add(...), Delivery::sort(array_combine($ids, $deliveries)));
        $this->first = count($this->deliveries);
        $this->bytes = 0;
    }

    public function add(Delivery $delivery): void
    {
        $this->deliveries[$delivery->identity()] = $delivery;
        $this->bytes += $delivery->bytes();
        $scope = $this->names->of($delivery);
        if ($delivery->open && $scope !== Scopes::NONE) {
            $this->open[$scope][] = $delivery;
        }
    }

    /** Returns the delivery whose outcome settles the redelivery; null: the redelivery is handed out. */
    public function unconfirmed(Delivery $redelivery): ?Delivery
    {
        $delivery = $this->deliveries[$redelivery->identity()] ?? null;

        return $delivery?->unconfirmed && !$delivery->batch->confirmed ? $delivery : null;
    }

    /**
     * Removes and returns the deliveries of the scope from the position of the redelivery on.
     *
     * @return list<Delivery>
     */
    public function takeBack(Delivery $redelivery): array
    {
        $scope = $this->names->of($redelivery);
        $taken = [];
        while (isset($this->open[$scope]) && !$redelivery->isAfter(end($this->open[$scope]))) {
            $taken[] = array_pop($this->open[$scope]);
            if ($this->open[$scope] === []) {
                unset($this->open[$scope]);
            }
        }

        return $taken;
    }

    /** It is to be made again: most of its deliveries may be confirmed by now. */
    public function isLarge(int $maxInFlight, int $maxInFlightBytes): bool
    {
        return count($this->deliveries) > 2 * $this->first + $maxInFlight || $this->bytes > $maxInFlightBytes;
    }
}
