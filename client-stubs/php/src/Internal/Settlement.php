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
    /** It is not to be sent: its record is redelivered. */
    public bool $withdrawn = false;

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

    /** Is called when the settlement waits to be sent. */
    public function queue(): void
    {
        foreach ($this->deliveries as $delivery) {
            $delivery->settlement = $this;
        }
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
        if ($this->batch !== null) {
            $this->batch->confirmed = true;
            $this->batch->release();
        }
        foreach ($this->deliveries as $delivery) {
            if ($delivery->settlement === $this) {
                $delivery->settlement = null;
                $delivery->unconfirmed = false;
            }
        }
    }
}
