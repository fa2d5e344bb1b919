<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

/**
 * One item of a settle request.
 *
 * @internal
 */
final class Settlement
{
    /**
     * @param string         $id         ack id or batch id
     * @param string         $json       the item
     * @param list<Delivery> $deliveries that it settles, without those of a batch
     * @param Delivery|null  $retried    the record, if the outcome is a retry
     * @param bool           $isAck      a request has acknowledgements only, or other outcomes only
     * @param WireBatch|null $batch      that it acknowledges
     */
    public function __construct(
        public readonly string $id,
        public readonly string $json,
        private readonly array $deliveries,
        public readonly ?Delivery $retried = null,
        public readonly bool $isAck = false,
        private readonly ?WireBatch $batch = null,
    ) {
    }

    public static function ofBatch(WireBatch $batch, string $outcome, string $delay = ''): self
    {
        $json = '{"batch_id":"' . $batch->id . '","outcome":"' . $outcome . '"' . $delay . '}';

        return new self($batch->id, $json, [], null, $outcome === 'ack', $outcome === 'ack' ? $batch : null);
    }

    public static function ofDelivery(Delivery $delivery, string $outcome, string $delay = ''): self
    {
        $id = $delivery->ackId();

        $json = '{"ack_id":"' . $id . '","outcome":"' . $outcome . '"' . $delay . '}';

        return new self($id, $json, [$delivery], null, $outcome === 'ack');
    }

    /** Returns how many records it settles. */
    public function count(): int
    {
        return $this->batch?->size() ?? count($this->deliveries);
    }

    /** It settles this record alone. */
    public function isOf(Delivery $delivery): bool
    {
        return $this->deliveries === [$delivery];
    }

    /**
     * Returns the records that it settles.
     *
     * @return list<Delivery>
     */
    public function deliveries(): array
    {
        $this->batch?->split();

        return $this->batch?->deliveries ?? $this->deliveries;
    }

    /** Is called when the settlement was answered, or is given up. */
    public function release(): void
    {
        $this->batch?->release();
    }
}
