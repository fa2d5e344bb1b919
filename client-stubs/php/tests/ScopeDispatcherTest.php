<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

use KinesisSidecar\Internal\Channel;
use KinesisSidecar\Internal\Delivery;
use KinesisSidecar\Internal\Port;
use KinesisSidecar\Internal\ScopeDispatcher;
use KinesisSidecar\Internal\Scopes;
use PHPUnit\Framework\TestCase;

final class ScopeDispatcherTest extends TestCase
{
    private ScopeDispatcher $dispatcher;

    /** @var list<Port> */
    private array $ports = [];

    protected function setUp(): void
    {
        $this->dispatcher = new ScopeDispatcher(new Scopes('key'));
        foreach ([1, 2] as $_) {
            $sockets = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
            $this->ports[] = $port = new Port(new Channel($sockets[0]), true);
            $this->dispatcher->attach($port);
        }
    }

    /** @return list<list<int>> numbers of the records at each process */
    private function sent(): array
    {
        return array_map(static fn (Port $port): array => Deliveries::numbers(array_values($port->sent)), $this->ports);
    }

    /** Takes the only record of a process. */
    private function leave(int $port): Delivery
    {
        $delivery = $this->ports[$port]->take(array_key_last($this->ports[$port]->sent));
        $this->dispatcher->left($delivery);

        return $delivery;
    }

    public function testRecordsOfOneLaneAreSentOneAfterTheOther(): void
    {
        foreach ([1, 2, 3] as $number) {
            $this->dispatcher->offer(Deliveries::make($number, ['lane' => 5]));
        }
        foreach ([1, 2, 3] as $number) {
            $this->dispatcher->pump();
            $this->assertSame([[$number], []], $this->sent());
            $this->leave(0);
        }
    }

    public function testRecordsOfDifferentLanesAndRecordsWithoutOrderAreSentTogether(): void
    {
        $this->dispatcher->offer(Deliveries::make(1, ['lane' => 5]));
        $this->dispatcher->offer(Deliveries::make(2, ['lane' => 5, 'redriven' => true]));
        $this->dispatcher->pump();
        $this->assertSame([[1], [2]], $this->sent());
    }

    public function testRecordThatIsPutBackIsSentBeforeTheLaterOnesOfItsLane(): void
    {
        foreach ([1, 2] as $number) {
            $this->dispatcher->offer(Deliveries::make($number, ['lane' => 5]));
        }
        $this->dispatcher->pump();
        $this->dispatcher->putBack([$this->leave(0)]);
        $this->dispatcher->pump();
        $this->assertSame([[1], []], $this->sent());
    }

    public function testWithdrawnRecordsAreNotSent(): void
    {
        foreach ([1, 2, 3] as $number) {
            $this->dispatcher->offer(Deliveries::make($number, ['lane' => 5]));
        }
        $this->dispatcher->pump();
        $isSecond = static fn (Delivery $delivery): bool => $delivery->ackId() === 'a2';
        $this->assertSame([2], Deliveries::numbers($this->dispatcher->withdraw($isSecond)));
        $this->leave(0);
        $this->dispatcher->pump();
        $this->assertSame([[3], []], $this->sent());
    }
}
