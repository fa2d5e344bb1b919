<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

use KinesisSidecar\Internal\Delivery;
use KinesisSidecar\Internal\Settlement;
use KinesisSidecar\Internal\WaitingAcks;
use KinesisSidecar\Internal\WireBatch;
use PHPUnit\Framework\TestCase;

/**
 * What is extended of records that were redelivered while the app had them.
 */
final class WaitingAcksTest extends TestCase
{
    private WaitingAcks $acks;

    protected function setUp(): void
    {
        $this->acks = new WaitingAcks(0.1);
    }

    private function begin(string $id, float $at): WireBatch
    {
        $batch = new WireBatch($id, 'shard', 1, $at);
        $this->acks->begin($batch);

        return $batch;
    }

    private static function delivery(string $ackId, WireBatch $batch): Delivery
    {
        return new Delivery('{"type":"record","ack_id":"' . $ackId . '"}', $batch, 0);
    }

    private function deliver(string $ackId, WireBatch $batch): Delivery
    {
        $delivery = self::delivery($ackId, $batch);
        $batch->add($delivery);

        return $delivery;
    }

    private function redeliver(Delivery $delivery, string $ackId, WireBatch $batch): void
    {
        $this->acks->leave($delivery);
        $delivery->adopt(self::delivery($ackId, $batch));
        $batch->add($delivery);
    }

    /** @return list<string> */
    private function extended(float $notBefore): array
    {
        return array_map(static fn (Settlement $item): string => $item->id, $this->acks->extensions(60000, $notBefore));
    }

    public function testRedeliveryDoesNotBeginMaxProcessingAgain(): void
    {
        $record = $this->deliver('a1', $this->begin('b1', 0.0));
        $this->redeliver($record, 'a1.2', $this->begin('b2', 100.0));
        self::assertSame(['b2'], $this->extended(0.0));
        $this->redeliver($record, 'a1.3', $this->begin('b3', 200.0));
        self::assertSame([], $this->extended(1.0));
    }

    public function testRecordWhoseTimeIsOverIsNotExtendedWithItsBatch(): void
    {
        $record = $this->deliver('a1', $this->begin('b1', 0.0));
        $batch = $this->begin('b2', 100.0);
        $this->redeliver($record, 'a1.2', $batch);
        $this->deliver('a2', $batch);
        $this->acks->remove($this->deliver('a3', $batch));
        $moved = $this->deliver('a4', $batch);
        $this->redeliver($moved, 'a4.2', $this->begin('b3', 100.0));
        self::assertSame(['a2', 'b3'], $this->extended(1.0));
    }
}
