<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

use KinesisSidecar\Internal\Delivery;
use KinesisSidecar\Internal\Redeliveries;
use KinesisSidecar\Internal\Verdict;
use KinesisSidecar\Outcome;
use PHPUnit\Framework\TestCase;

final class RedeliveriesTest extends TestCase
{
    private Redeliveries $redeliveries;
    private Delivery $delivery;

    protected function setUp(): void
    {
        $this->delivery = Deliveries::make(7);
        $this->redeliveries = new Redeliveries();
        $this->redeliveries->expect([$this->delivery]);
    }

    public function testRedeliveryOfAnUnknownRecordIsHandedOut(): void
    {
        $this->assertNull($this->redeliveries->take(Deliveries::make(8)));
        $this->assertTrue($this->redeliveries->expects($this->delivery));
    }

    public function testRedeliveryOfAKnownRecordIsTakenOnce(): void
    {
        $this->assertSame($this->delivery, $this->redeliveries->take(Deliveries::make(7)));
        $this->assertNull($this->redeliveries->take(Deliveries::make(7)));
        $this->assertFalse($this->redeliveries->expects($this->delivery));
    }

    public function testRedeliveryOfAForgottenRecordIsHandedOut(): void
    {
        $this->redeliveries->forget($this->delivery);
        $this->assertNull($this->redeliveries->take(Deliveries::make(7)));
    }

    public function testRedrivenRecordIsHandedOut(): void
    {
        $this->assertNull($this->redeliveries->take(Deliveries::make(7, ['redriven' => true])));
        $this->assertTrue($this->redeliveries->expects($this->delivery));
    }

    /** @return array<string, array{list<Delivery>, bool, bool}> */
    public function sessions(): array
    {
        $later = Deliveries::make(10);

        return [
            'no record' => [[], true, true],
            'a later record' => [[$later], true, false],
            'a later record, and the app has the record' => [[$later], false, true],
            'an earlier record after a later one' => [[$later, Deliveries::make(6)], true, true],
            'a later record of another shard' => [[Deliveries::make(10, ['shard_id' => 'other'])], true, true],
            'a later record that is redriven' => [[Deliveries::make(10, ['redriven' => true])], true, true],
        ];
    }

    /**
     * @dataProvider sessions
     *
     * @param list<Delivery> $heads first records of the batches of a session without the record
     */
    public function testSessionWithoutTheRecord(array $heads, bool $hasOutcome, bool $isKept): void
    {
        $this->delivery->verdict = $hasOutcome ? new Verdict(Outcome::Ack) : null;
        array_map($this->redeliveries->begin(...), $heads);
        $this->redeliveries->expect([]);
        $this->assertSame($isKept, $this->redeliveries->expects($this->delivery));
    }

    public function testRecordsOfAnEarlierSessionDoNotCount(): void
    {
        $this->redeliveries->begin(Deliveries::make(10));
        $this->redeliveries->expect([]);
        $this->delivery->verdict = new Verdict(Outcome::Ack);
        $this->redeliveries->expect([]);
        $this->assertTrue($this->redeliveries->expects($this->delivery));
    }

    public function testRedrivenRecordWithAnOutcomeIsForgottenAfterTheSession(): void
    {
        $redriven = Deliveries::make(7, ['redriven' => true]);
        $this->redeliveries->expect([$redriven]);
        $redriven->verdict = new Verdict(Outcome::Drop);
        $this->redeliveries->expect([]);
        $this->assertFalse($this->redeliveries->expects($redriven));
    }
}
