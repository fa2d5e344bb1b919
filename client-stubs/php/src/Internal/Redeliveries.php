<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

/**
 * Records of earlier sessions that the app has, or whose outcome was not confirmed. Their redeliveries are not handed
 * out.
 *
 * @internal
 */
final class Redeliveries
{
    /** @var array<string, Delivery> by identity of the record */
    private array $expected = [];

    /** @var array<string, Delivery> first records of the last batches in the session, by shard */
    private array $heads = [];

    /**
     * Begins a session. Forgets the records that the last one has settled.
     *
     * @param list<Delivery> $deliveries of the last session
     */
    public function expect(array $deliveries): void
    {
        $this->expected = array_filter($this->expected, fn (Delivery $delivery): bool => !$this->isSettled($delivery));
        $this->heads = [];
        foreach ($deliveries as $delivery) {
            $this->expected[$delivery->identity()] = $delivery;
        }
    }

    /** Notes the first record of a batch. */
    public function begin(Delivery $head): void
    {
        // Records that are redriven have no order.
        if (!Line::isRedriven($head->line)) {
            $this->heads[$head->batch->shard] = $head;
        }
    }

    /** Tells whether the session delivered a later record of the shard, and not this one. */
    private function isSettled(Delivery $delivery): bool
    {
        return $delivery->verdict !== null && (Line::isRedriven($delivery->line)
            || ($this->heads[$delivery->batch->shard] ?? null)?->isAfter($delivery));
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
        $identity = $redelivery->identity();
        $delivery = $this->expected[$identity] ?? null;
        unset($this->expected[$identity]);

        return $delivery;
    }

    public function expects(Delivery $delivery): bool
    {
        return ($this->expected[$delivery->identity()] ?? null) === $delivery;
    }

    /** Lets the redelivery be handed out: no handler has begun the record. */
    public function forget(Delivery $delivery): void
    {
        if ($this->expects($delivery)) {
            unset($this->expected[$delivery->identity()]);
        }
    }
}
