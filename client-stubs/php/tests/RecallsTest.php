<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

use KinesisSidecar\Internal\Delivery;
use KinesisSidecar\Internal\Recalls;
use KinesisSidecar\Internal\Scopes;
use PHPUnit\Framework\TestCase;

final class RecallsTest extends TestCase
{
    private Delivery $retried;

    protected function setUp(): void
    {
        $this->retried = Deliveries::make(5, ['lane' => 3]);
    }

    /** Retries record 5, and holds records 4, 6 and 9 of its lane. Record 9 arrives after the barrier. */
    private function recalls(): Recalls
    {
        $recalls = new Recalls(new Scopes('key'), static fn (): array => []);
        $recalls->begin($this->retried);
        $recalls->sending([$this->retried], 'b1');
        foreach ([4, 6, 9] as $number) {
            $recalls->hold(Deliveries::make($number, ['lane' => 3]));
        }

        return $recalls;
    }

    /** @return array<int, bool> */
    private function answer(bool $isAccepted): array
    {
        return [spl_object_id($this->retried) => $isAccepted];
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
        $recalls = $this->recalls();
        $this->assertSame([[], []], $recalls->answered($this->answer(true)));
        $this->assertSame([[6], [4, 9]], self::numbers($recalls->barrier('b1', 8)));
        $this->assertFalse($recalls->hold(Deliveries::make(10, ['lane' => 3])));
    }

    public function testBarrierMayPassBeforeTheAnswer(): void
    {
        $recalls = $this->recalls();
        $this->assertSame([[], []], $recalls->barrier('b1', 8));
        $this->assertSame([[6], [4, 9]], self::numbers($recalls->answered($this->answer(true))));
    }

    public function testSecondCopyOfABarrierTakesNothingBack(): void
    {
        $recalls = $this->recalls();
        $recalls->barrier('b1', 8);
        $recalls->barrier('b1', 10);
        $this->assertSame([[6], [4, 9]], self::numbers($recalls->answered($this->answer(true))));
    }

    public function testLostLeaseDoesNotReplaceTheBarrier(): void
    {
        $recalls = $this->recalls();
        $recalls->loseShard('s', 8);
        $this->assertSame([[], []], $recalls->answered($this->answer(true)));
        $this->assertSame([[6], [4, 9]], self::numbers($recalls->barrier('b1', 10)));
    }

    public function testRedeliveryOfTheRetriedRecordReplacesAnswerAndBarrier(): void
    {
        $redelivery = new Delivery($this->retried->line, $this->retried->batch, 8);
        $this->assertSame([[6], [4, 9]], self::numbers($this->recalls()->redelivered($redelivery)));
    }

    public function testRecordsAreReleasedInTheOrderOfTheirArrival(): void
    {
        $recalls = $this->recalls();
        $recalls->hold(Deliveries::make(8, ['lane' => 3]));
        $recalls->answered($this->answer(false));
        $this->assertSame([[], [4, 6, 8, 9]], self::numbers($recalls->barrier('b1', 8)));
    }

    public function testRefusedRetryReleasesAllAfterItsBarrier(): void
    {
        $recalls = $this->recalls();
        $this->assertSame([[], []], $recalls->answered($this->answer(false)));
        $this->assertSame([[], [4, 6, 9]], self::numbers($recalls->barrier('b1', 8)));
    }

    public function testScopeIsHeldUntilTheLastRetryIsResolved(): void
    {
        $recalls = $this->recalls();
        $second = Deliveries::make(4, ['lane' => 3]);
        $recalls->begin($second);
        $recalls->sending([$second], 'b2');
        $recalls->answered($this->answer(false) + [spl_object_id($second) => false]);
        $this->assertSame([[], []], $recalls->barrier('b1', 8));
        $this->assertSame([[], [4, 6, 9]], self::numbers($recalls->barrier('b2', 8)));
    }

    public function testOtherLanesShardsAndRedrivenRecordsAreNotHeld(): void
    {
        $recalls = $this->recalls();
        $others = [['lane' => 4], [], ['lane' => 3, 'shard_id' => 't'], ['redriven' => true]];
        foreach ($others as $number => $members) {
            $this->assertFalse($recalls->hold(Deliveries::make(20 + $number, $members)));
        }
        $this->assertFalse($recalls->begin(Deliveries::make(30, ['redriven' => true])));
    }
}
