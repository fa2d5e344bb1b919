<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

use KinesisSidecar\Record;
use KinesisSidecar\Testing\FakeConsumer;
use PHPUnit\Framework\TestCase;

use function KinesisSidecar\applyOnce;

final class ApplyOnceTest extends TestCase
{
    private \PDO $database;

    protected function setUp(): void
    {
        $this->database = new \PDO('sqlite::memory:');
        $this->database->exec('CREATE TABLE total (amount INTEGER NOT NULL)');
    }

    private static function add(\PDO $database, Record $record): void
    {
        $database->prepare('INSERT INTO total VALUES (?)')->execute([$record->json()['amount']]);
        if ($record->json()['amount'] < 0 && $record->attempt === 1) {
            throw new \RuntimeException('the amount is negative');
        }
    }

    private function total(): int
    {
        return (int) $this->database->query('SELECT sum(amount) FROM total')->fetchColumn();
    }

    public function testEffectOfARedeliveredRecordRunsOnce(): void
    {
        $consumer = new FakeConsumer();
        foreach ([1, 1, 2] as $number) {
            $consumer->put(['amount' => 10 * $number], members: ['sequence_number' => "$number"]);
        }
        $ran = [];
        $consumer->run(function (Record $record) use ($consumer, &$ran): void {
            $ran[] = applyOnce($this->database, $consumer, $record, self::add(...));
        });
        $this->assertSame([true, false, true], $ran);
        $this->assertSame(30, $this->total());
    }

    public function testEffectThatFailsLeavesNoTraceAndMayRunAgain(): void
    {
        $consumer = new FakeConsumer(maxAttempts: 2);
        $consumer->put(['amount' => -5]);
        $consumer->run(fn (Record $record) => applyOnce($this->database, $consumer, $record, self::add(...)));
        $this->assertSame(-5, $this->total());
        $outcomes = array_map(static fn ($outcome) => $outcome->outcome->value, $consumer->outcomes());
        $this->assertSame(['retry', 'ack'], $outcomes);
    }

    public function testConsumersAreIndependent(): void
    {
        foreach (['one', 'other'] as $clientId) {
            $consumer = new FakeConsumer($clientId);
            $consumer->put(['amount' => 1]);
            $consumer->run(fn (Record $record) => applyOnce($this->database, $consumer, $record, self::add(...)));
        }
        $this->assertSame(2, $this->total());
    }
}
