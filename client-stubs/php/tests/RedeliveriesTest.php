<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

use KinesisSidecar\Internal\Delivery;
use KinesisSidecar\Internal\Redeliveries;
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

    public function testRedeliveryOfTheSessionBeforeTheLastIsHandedOut(): void
    {
        $this->redeliveries->expect([]);
        $this->assertNull($this->redeliveries->take(Deliveries::make(7)));
    }
}
