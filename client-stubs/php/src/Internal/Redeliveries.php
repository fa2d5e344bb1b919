<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

/**
 * Records that the app has, or whose outcome was not confirmed, at the start of a session. Their redeliveries are not
 * handed out.
 *
 * @internal
 */
final class Redeliveries
{
    /** @var array<string, Delivery> by identity of the record */
    private array $expected = [];

    /** @param list<Delivery> $deliveries replace those of the last session */
    public function expect(array $deliveries): void
    {
        $this->expected = [];
        foreach ($deliveries as $delivery) {
            $this->expected[Line::identity($delivery->line)] = $delivery;
        }
    }

    public function isEmpty(): bool
    {
        return $this->expected === [];
    }

    /** Removes and returns the delivery whose outcome settles the redelivery; null: the redelivery is handed out. */
    public function take(Delivery $redelivery): ?Delivery
    {
        if ($this->expected === []) {
            return null;
        }
        $identity = Line::identity($redelivery->line);
        $delivery = $this->expected[$identity] ?? null;
        unset($this->expected[$identity]);

        return $delivery;
    }

    public function expects(Delivery $delivery): bool
    {
        return ($this->expected[Line::identity($delivery->line)] ?? null) === $delivery;
    }

    /** Lets the redelivery be handed out: no handler has begun the record. */
    public function forget(Delivery $delivery): void
    {
        if ($this->expects($delivery)) {
            unset($this->expected[Line::identity($delivery->line)]);
        }
    }
}
