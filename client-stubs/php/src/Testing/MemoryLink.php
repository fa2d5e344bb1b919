<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Testing;

use KinesisSidecar\Internal\Line;
use KinesisSidecar\Internal\Link;
use KinesisSidecar\Outcome;
use KinesisSidecar\Record;

/**
 * Keeps records and outcomes in memory.
 *
 * @internal
 */
final class MemoryLink implements Link
{
    /** @var list<FakeOutcome> */
    public array $outcomes = [];

    /** @var list<array<string, mixed>> records to hand out */
    private array $queue = [];

    /** @var array<int, array{Record, array<string, mixed>}> handed out and without an outcome, by number */
    private array $open = [];

    private int $taken = 0;
    private int $put = 0;
    private bool $stopping = false;

    public function __construct(private readonly int $maxAttempts)
    {
    }

    /** @param array<string, mixed> $members */
    public function put(string $data, string $partitionKey, array $members): void
    {
        $this->put++;
        $this->queue[] = $members + [
            'ack_id' => "ack-{$this->put}",
            'batch_id' => 'batch',
            'stream' => 'test',
            'shard_id' => 'shardId-000000000000',
            'epoch' => 1,
            'sequence_number' => (string) $this->put,
            'sub_sequence_number' => 0,
            'partition_key' => $partitionKey,
            'approximate_arrival_timestamp' => gmdate('Y-m-d\TH:i:s.000\Z'),
            'attempt' => 1,
            'data' => base64_encode($data),
        ];
    }

    /** @return list<Record> */
    public function unsettled(): array
    {
        return array_column($this->open, 0);
    }

    public function await(int $count, ?float $seconds): int
    {
        return $this->stopping ? 0 : count($this->queue);
    }

    public function take(): Record
    {
        $members = array_shift($this->queue);
        $record = new Record($this, $this->taken, Line::of($members));
        $this->open[$this->taken++] = [$record, $members];

        return $record;
    }

    public function ack(int $number): void
    {
        $this->settle($number, Outcome::Ack, null, '');
    }

    public function settle(int $number, Outcome $outcome, ?float $delay, string $reason): void
    {
        [$record, $members] = $this->open[$number];
        unset($this->open[$number]);
        $this->outcomes[] = new FakeOutcome($record, $outcome, $delay, $reason);
        if ($outcome === Outcome::Retry && $members['attempt'] < $this->maxAttempts) {
            array_unshift($this->queue, ['attempt' => $members['attempt'] + 1] + $members);
        }
    }

    public function persist(int $number): bool
    {
        $this->ack($number);

        return true;
    }

    public function extend(int $number, float $seconds): void
    {
    }

    public function giveBack(int $number): void
    {
        foreach (array_reverse($this->open, true) as $open => [, $members]) {
            if ($open >= $number) {
                unset($this->open[$open]);
                array_unshift($this->queue, $members);
            }
        }
    }

    public function stop(): void
    {
        $this->stopping = true;
    }

    public function close(): void
    {
        $this->stopping = true;
    }
}
