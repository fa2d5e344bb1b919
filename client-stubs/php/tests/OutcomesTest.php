<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

use KinesisSidecar\Internal\Channel;
use KinesisSidecar\Internal\Delivery;
use KinesisSidecar\Internal\DirectDispatcher;
use KinesisSidecar\Internal\Dispatcher;
use KinesisSidecar\Internal\Endpoint;
use KinesisSidecar\Internal\Line;
use KinesisSidecar\Internal\Options;
use KinesisSidecar\Internal\Outcomes;
use KinesisSidecar\Internal\Port;
use KinesisSidecar\Internal\Run;
use PHPUnit\Framework\TestCase;

/**
 * Many redeliveries, and how many deliveries are looked at for them.
 */
final class OutcomesTest extends TestCase
{
    private const RECORDS = 300;

    private Outcomes $outcomes;
    private Port $port;
    private int $seen = 0;

    /** @var resource */
    private mixed $peer;

    private function begin(Dispatcher $dispatcher): void
    {
        [$socket, $this->peer] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $this->port = new Port(new Channel($socket), false);
        $dispatcher->attach($this->port);
        $limits = [self::RECORDS, 1 << 24, 60.0, 3600.0, 0.0];
        $options = new Options('test', ...[...$limits, 'shard', null, [], null, 'http://127.0.0.1:1', null]);
        $atApp = function (): array {
            $this->seen += count($this->port->split());

            return array_values($this->port->sent);
        };
        $ignore = static fn () => null;
        $endpoint = new Endpoint($options->url, null);
        $this->outcomes = new Outcomes($options, $dispatcher, $ignore, $endpoint, $atApp, $ignore);
        $this->outcomes->begin([], 0.0, []);
    }

    /** Delivers batches of one record. */
    private function deliver(int $first, int $count, int $attempt): void
    {
        for ($number = $first; $number < $first + $count; $number++) {
            $this->outcomes->arrive([Line::of([
                'ack_id' => "a$number.$attempt", 'batch_id' => "b$number.$attempt", 'shard_id' => 's',
                'sequence_number' => sprintf('%09d', $number), 'sub_sequence_number' => 0, 'attempt' => $attempt,
                'data' => '',
            ])], 0.0);
        }
    }

    public function testRedeliveryCostsTheSameHoweverManyRecordsTheAppHas(): void
    {
        $this->begin(new DirectDispatcher());
        $this->deliver(0, self::RECORDS, 1);
        $this->deliver(0, self::RECORDS, 2);
        $this->deliver(0, self::RECORDS, 3);
        $this->assertCount(self::RECORDS, $this->port->split());
        $this->assertLessThan(5 * self::RECORDS, $this->seen);
    }

    public function testRedeliveryOfRecordsThatTheAppNeverHadCostsTheSame(): void
    {
        $this->begin(new DirectDispatcher());
        $this->deliver(0, self::RECORDS, 1);
        $this->deliver(self::RECORDS, 2 * self::RECORDS, 2);
        $this->assertLessThan(5 * self::RECORDS, $this->seen);
    }

    public function testRedeliveryCostsTheSameHoweverManyRecordsAreQueued(): void
    {
        $queue = new class implements Dispatcher {
            /** @var list<Delivery> */
            public array $queue = [];
            public int $seen = 0;

            public function attach(Port $port): void
            {
            }

            public function detach(Port $port): void
            {
            }

            public function offer(Delivery ...$deliveries): void
            {
                array_push($this->queue, ...$deliveries);
            }

            public function send(Run $run): bool
            {
                return false;
            }

            public function putBack(array $deliveries): void
            {
            }

            public function left(Delivery ...$deliveries): void
            {
            }

            public function withdraw(\Closure $isWanted): array
            {
                $this->seen += count($this->queue);
                $wanted = array_filter($this->queue, $isWanted);
                $this->queue = array_values(array_diff_key($this->queue, $wanted));

                return array_values($wanted);
            }

            public function pump(): void
            {
            }
        };
        $this->begin($queue);
        $this->deliver(0, self::RECORDS, 1);
        $this->deliver(0, self::RECORDS, 2);
        $open = array_filter($queue->queue, static fn (Delivery $delivery): bool => $delivery->open);
        $second = array_map(static fn (int $number): string => "a$number.2", range(0, self::RECORDS - 1));
        $this->assertSame($second, array_map(static fn ($delivery) => $delivery->ackId(), array_values($open)));
        $this->assertLessThan(5 * self::RECORDS, $this->seen + $queue->seen);
    }
}
