<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

use KinesisSidecar\Internal\Recalls;
use KinesisSidecar\Internal\Scopes;
use PHPUnit\Framework\TestCase;

final class RecallsTest extends TestCase
{
    /** Retries record 5, and holds records 4, 6 and 9 of its lane. Record 9 arrives after the barrier. */
    private static function recalls(): Recalls
    {
        $recalls = new Recalls(new Scopes('key'));
        $recalls->begin(Deliveries::make(5, ['lane' => 3]));
        $recalls->sending([Deliveries::make(5)], 'b1');
        foreach ([4, 6, 9] as $number) {
            $recalls->hold(Deliveries::make($number, ['lane' => 3]));
        }

        return $recalls;
    }

    /**
     * @param array{list<\KinesisSidecar\Internal\Delivery>, list<\KinesisSidecar\Internal\Delivery>} $ended
     *
     * @return list<list<int>>
     */
    private static function numbers(array $ended): array
    {
        return array_map(Deliveries::numbers(...), $ended);
    }

    public function testAcceptedRetryDropsTheLaterRecordsBeforeTheBarrier(): void
    {
        $recalls = self::recalls();
        $this->assertSame([[], []], $recalls->answered([5 => true]));
        $this->assertSame([[6], [4, 9]], self::numbers($recalls->barrier('b1', 8)));
        $this->assertFalse($recalls->hold(Deliveries::make(10, ['lane' => 3])));
    }

    public function testBarrierMayPassBeforeTheAnswer(): void
    {
        $recalls = self::recalls();
        $this->assertSame([[], []], $recalls->barrier('b1', 8));
        $this->assertSame([[6], [4, 9]], self::numbers($recalls->answered([5 => true])));
    }

    public function testRefusedRetryReleasesAllWithoutABarrier(): void
    {
        $this->assertSame([[], [4, 6, 9]], self::numbers(self::recalls()->answered([5 => false])));
    }

    public function testScopeIsHeldUntilTheLastRetryIsResolved(): void
    {
        $recalls = self::recalls();
        $recalls->begin(Deliveries::make(4, ['lane' => 3]));
        $this->assertSame([[], []], $recalls->answered([5 => false]));
        $this->assertSame([[], [4, 6, 9]], self::numbers($recalls->answered([4 => false])));
    }

    public function testOtherLanesShardsAndRedrivenRecordsAreNotHeld(): void
    {
        $recalls = self::recalls();
        $others = [['lane' => 4], [], ['lane' => 3, 'shard_id' => 't'], ['redriven' => true]];
        foreach ($others as $number => $members) {
            $this->assertFalse($recalls->hold(Deliveries::make(20 + $number, $members)));
        }
        $this->assertFalse($recalls->begin(Deliveries::make(30, ['redriven' => true])));
    }
}
