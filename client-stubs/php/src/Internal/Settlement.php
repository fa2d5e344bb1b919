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
     * @param list<Delivery> $deliveries that it settles
     * @param Delivery|null  $retried    the record, if the outcome is a retry
     */
    public function __construct(
        public readonly string $id,
        public readonly string $json,
        public readonly array $deliveries,
        public readonly ?Delivery $retried = null,
    ) {
    }

    public static function ofBatch(WireBatch $batch, string $outcome, string $delay = ''): self
    {
        $json = '{"batch_id":"' . $batch->id . '","outcome":"' . $outcome . '"' . $delay . '}';

        return new self($batch->id, $json, $batch->deliveries);
    }

    public static function ofDelivery(Delivery $delivery, string $outcome, string $delay = ''): self
    {
        $id = $delivery->ackId();

        return new self($id, '{"ack_id":"' . $id . '","outcome":"' . $outcome . '"' . $delay . '}', [$delivery]);
    }
}
