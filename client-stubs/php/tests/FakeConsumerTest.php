<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

use KinesisSidecar\Consumer;
use KinesisSidecar\Outcome;
use KinesisSidecar\Record;
use KinesisSidecar\Testing\FakeConsumer;
use PHPUnit\Framework\TestCase;

final class FakeConsumerTest extends TestCase
{
    public function testRunTellsTheOutcomes(): void
    {
        $consumer = new FakeConsumer();
        foreach (['ack', 'fail', 'dead_letter', 'drop', 'retry'] as $order) {
            $consumer->put($order);
        }
        $consumer->run(static fn (Record $record) => match ($record->data) {
            'ack' => null,
            'fail' => throw new \RuntimeException('no'),
            'dead_letter' => $record->deadLetter('broken'),
            'drop' => $record->drop(),
            'retry' => $record->retry(2.5, 'later'),
        }, concurrency: 4);
        $this->assertSame([
            ['ack', Outcome::Ack, null, ''],
            ['fail', Outcome::Retry, null, 'no'],
            ['dead_letter', Outcome::DeadLetter, null, 'broken'],
            ['drop', Outcome::Drop, null, ''],
            ['retry', Outcome::Retry, 2.5, 'later'],
        ], array_map(
            static fn ($done) => [$done->record->data, $done->outcome, $done->delay, $done->reason],
            $consumer->outcomes()
        ));
    }

    public function testFirstOutcomeCounts(): void
    {
        $consumer = new FakeConsumer();
        $consumer->put(['n' => 1]);
        $consumer->run(static function (Record $record): void {
            $record->drop();
            $record->retry();
            throw new \RuntimeException('too late');
        });
        $this->assertCount(1, $consumer->outcomes());
        $this->assertSame(Outcome::Drop, $consumer->outcomes()[0]->outcome);
    }

    public function testRetriedRecordIsRedeliveredBeforeTheOthers(): void
    {
        $consumer = new FakeConsumer(maxAttempts: 3);
        $consumer->put('one');
        $consumer->put('two');
        $handled = [];
        $consumer->run(static function (Record $record) use (&$handled): void {
            $handled[] = "$record->data.$record->attempt";
            $record->data === 'two' || throw new \RuntimeException('no');
        });
        $this->assertSame(['one.1', 'one.2', 'one.3', 'two.1'], $handled);
    }

    public function testLoopAcknowledgesTheRecordBeforeTheNext(): void
    {
        $consumer = new FakeConsumer();
        foreach ([1, 2, 3] as $number) {
            $consumer->put(['n' => $number], "key-$number");
        }
        foreach ($this->type($consumer) as $record) {
            if ($record->json()['n'] === 2) {
                break;
            }
        }
        $this->assertCount(1, $consumer->outcomes());
        $this->assertSame(['key-2'], array_map(static fn ($record) => $record->partitionKey, $consumer->unsettled()));
    }

    public function testBatchesHaveTheirMaximumOfRecords(): void
    {
        $consumer = new FakeConsumer();
        foreach (range(1, 5) as $number) {
            $consumer->put(['n' => $number]);
        }
        $sizes = [];
        foreach ($consumer->batches(2, 0.1) as $batch) {
            $sizes[] = count($batch);
            count($sizes) === 2 && $batch->retry(reason: 'all');
        }
        $this->assertSame([2, 2, 1], $sizes);
        $outcomes = array_map(static fn ($done) => $done->outcome->value, $consumer->outcomes());
        $this->assertSame(['ack', 'ack', 'retry', 'retry', 'ack'], $outcomes);
    }

    /** Apps declare the type of the consumer: the fake has it. */
    private function type(Consumer $consumer): Consumer
    {
        return $consumer;
    }

    public function testRecordOfALoopThatWasLeftIsHandedOutByTheNextLoop(): void
    {
        $consumer = new FakeConsumer();
        array_map($consumer->put(...), [1, 2, 3]);
        foreach ($consumer as $record) {
            break;
        }
        foreach ($consumer->batches(2) as $batch) {
            $batch->records[0]->drop();
            break;
        }
        $read = [];
        foreach ($consumer as $record) {
            $read[] = $record->json();
        }
        $this->assertSame([2, 3], $read);
    }
}
