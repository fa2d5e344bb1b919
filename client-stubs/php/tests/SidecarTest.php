<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

use KinesisSidecar\Consumer;
use KinesisSidecar\Outcome;
use KinesisSidecar\Record;
use KinesisSidecar\SessionTakenOver;
use PHPUnit\Framework\TestCase;

/**
 * Behaviour with the real sidecar.
 */
final class SidecarTest extends TestCase
{
    /** @return list<array{string, array<string, mixed>}> */
    private static function records(int $count, int $keys = 7, array $more = []): array
    {
        return array_map(static fn ($n) => ["key-" . $n % $keys, ['n' => $n] + $more], range(1, $count));
    }

    public function testAllOutcomesAreSettled(): void
    {
        $sidecar = new Sidecar('--local-shards', '1', '--max-attempts', '3');
        $sidecar->put(self::records(6));
        $consumer = new Consumer('test', url: $sidecar->url);
        $attempts = [];
        $consumer->run(static function (Record $record) use (&$attempts, $consumer): void {
            $number = $record->json()['n'];
            $attempts[$number] = ($attempts[$number] ?? 0) + 1;
            match ($number) {
                1 => $record->ack(),
                2 => $record->deadLetter('asked'),
                3 => $record->drop(),
                4 => $attempts[4] < 3 ? $record->retry(0.01, 'later') : null,
                5 => throw new \RuntimeException('always'),
                6 => $consumer->stop(),
            };
        });
        $this->assertSame([1, 1, 1, 3, 3, 1], array_values($attempts));
        Wait::until(static fn () => $sidecar->settled() === 6);
        Wait::until(static fn () => count($sidecar->get('/v1/dead-letters')['dead_letters']) === 2);
        $letters = array_column($sidecar->get('/v1/dead-letters')['dead_letters'], 'reason', 'cause');
        $this->assertSame(['asked' => 'asked', 'attempts' => 'always'], $letters);
        $this->assertSame([], $sidecar->get('/v1/sessions')['sessions']);
    }

    public function testRecordHasAllMembers(): void
    {
        $sidecar = new Sidecar('--local-shards', '1');
        $sidecar->put([["k\"\u{e9},\"data\":\"", ['n' => 1]]]);
        $consumer = new Consumer('test', url: $sidecar->url);
        foreach ($consumer as $record) {
            break;
        }
        $this->assertSame('{"n":1}', $record->data);
        $this->assertSame("k\"\u{e9},\"data\":\"", $record->partitionKey);
        $this->assertSame('demo', $record->stream);
        $this->assertSame('shardId-000000000000', $record->shardId);
        $this->assertMatchesRegularExpression('/^\d+$/', $record->sequenceNumber);
        $this->assertSame([0, 1, 1], [$record->subSequenceNumber, $record->epoch, $record->attempt]);
        $this->assertSame([false, false], [$record->aggregated, $record->redriven]);
        $this->assertGreaterThan(1700000000, $record->arrivedAt->getTimestamp());
        $record->extend(30.0);
        $this->assertTrue($record->ack(persisted: true));
        $this->assertSame(Outcome::Ack, $record->outcome());
        $consumer->close();
    }

    public function testOrderOfAKeyHoldsWithFailingHandlersAndConcurrency(): void
    {
        $sidecar = new Sidecar('--local-shards', '2');
        $records = self::records(400, 23);
        foreach ($records as $at => $_) {
            $at % 9 === 0 && $records[$at][1]['fail'] = 2;
        }
        $sidecar->put($records);
        $app = new App($sidecar->url, 8);
        Wait::until(static fn () => $sidecar->settled() === 400);
        $this->assertSame(0, $app->stop());
        $running = $last = [];
        foreach ($app->lines() as [$event, $number, $key]) {
            if ($event === 'begin') {
                $this->assertArrayNotHasKey($key, $running, "two handlers of $key run at the same time");
                $this->assertGreaterThan($last[$key] ?? 0, $number, "a record of $key began out of order");
                $running[$key] = $number;
                continue;
            }
            unset($running[$key]);
            if ($event === 'end') {
                $last[$key] = $number;
            }
        }
        $this->assertCount(400, array_unique($app->numbers('end')));
        $this->assertCount(400, $app->numbers('end'));
    }

    public function testWorkerProcessThatDiesIsReplacedAndItsRecordRetried(): void
    {
        $sidecar = new Sidecar('--local-shards', '1');
        $records = self::records(40, 5);
        $records[9][1]['exit'] = true;
        $sidecar->put($records);
        $app = new App($sidecar->url, 2);
        Wait::until(static fn () => $sidecar->settled() === 40);
        $this->assertSame(0, $app->stop());
        $this->assertSame(range(1, 40), self::sorted(array_unique($app->numbers('end'))));
    }

    public function testSlowHandlerIsNotCalledAgainAfterTheAckDeadline(): void
    {
        $sidecar = new Sidecar('--local-shards', '1');
        foreach ([1, 2] as $concurrency) {
            $sidecar->put([['slow', ['n' => 1, 'ms' => 3000]], ['slow', ['n' => 2]]]);
            $app = new App($sidecar->url, $concurrency, 1.0);
            Wait::until(static fn () => $sidecar->settled() === 2 * $concurrency);
            $app->stop();
            $this->assertSame([1, 2], $app->numbers('begin'));
        }
    }

    public function testStopWaitsForRunningHandlersAndGivesBackTheOthers(): void
    {
        $sidecar = new Sidecar('--local-shards', '1');
        foreach ([1, 2] as $concurrency) {
            $sidecar->put(self::records(20, 5, ['ms' => 300]));
            $before = $sidecar->settled();
            $app = new App($sidecar->url, $concurrency);
            Wait::until(static fn () => $app->numbers('begin') !== []);
            $this->assertSame(0, $app->stop());
            $this->assertSame(self::sorted($app->numbers('begin')), self::sorted($app->numbers('end')));
            $this->assertLessThan(20, count($app->numbers('end')));
            $lines = $app->lines();
            $this->assertSame('stopped', end($lines)[0]);
            $this->assertSame([], $sidecar->get('/v1/sessions')['sessions']);
            $this->assertSame(0, array_sum(array_column($sidecar->get('/v1/shards')['shards'], 'in_flight')));
            $this->assertGreaterThanOrEqual($before, $sidecar->settled());
        }
    }

    public function testLeavingALoopSettlesNothing(): void
    {
        $sidecar = new Sidecar('--local-shards', '1');
        $sidecar->put(self::records(3));
        foreach ([[1, 2], [2, 3]] as $expected) {
            $consumer = new Consumer('test', url: $sidecar->url);
            $read = [];
            foreach ($consumer as $record) {
                $read[] = $record->json()['n'];
                if (count($read) === 2) {
                    break;
                }
            }
            $consumer->close();
            $this->assertSame($expected, $read);
        }
        Wait::until(static fn () => $sidecar->settled() === 2);
    }

    /** @return list<int> the numbers of the next records of a loop that is left */
    private static function loop(Consumer $consumer, int $count): array
    {
        $read = [];
        foreach ($consumer as $record) {
            $read[] = $record->json()['n'];
            if (count($read) === $count) {
                break;
            }
        }

        return $read;
    }

    public function testRecordsOfALoopThatWasLeftAreHandedOutByTheNextLoop(): void
    {
        $sidecar = new Sidecar('--local-shards', '1');
        $sidecar->put(self::records(5));
        $consumer = new Consumer('test', url: $sidecar->url);
        foreach ($consumer->batches(3, 60.0) as $batch) {
            $batch->records[1]->drop();
            break;
        }
        $this->assertSame([1], self::loop($consumer, 1));
        $this->assertSame([1, 3, 4], self::loop($consumer, 3));
        foreach ($consumer as $record) {
            break;
        }
        $record->ack();
        $this->assertSame([5], self::loop($consumer, 1));
        $consumer->close();
        Wait::until(static fn () => $sidecar->settled() === 4);
    }

    public function testRecordsThatARetryTakesBackFromALoopThatWasLeftAreHandedOutBehindIt(): void
    {
        $sidecar = new Sidecar('--local-shards', '1');
        $sidecar->put(self::records(4));
        $consumer = new Consumer('test', url: $sidecar->url);
        foreach ($consumer->batches(3, 60.0) as $batch) {
            $batch->records[0]->retry(0.2);
            break;
        }
        $this->assertSame([1, 2, 3, 4], self::loop($consumer, 4));
        $consumer->close();
    }

    public function testBatchesAreAcknowledgedByTheNextOneAndRetriedAsAWhole(): void
    {
        $sidecar = new Sidecar('--local-shards', '1');
        $sidecar->put(self::records(10));
        $consumer = new Consumer('test', url: $sidecar->url);
        $sizes = $first = [];
        foreach ($consumer->batches(4, 0.2) as $batch) {
            $sizes[] = count($batch);
            $first[] = $batch->records[0]->json()['n'];
            count($sizes) === 1 && $batch->retry();
            if (array_sum($sizes) >= 14) {
                $batch->ack();
                break;
            }
        }
        $consumer->close();
        $this->assertSame(14, array_sum($sizes));
        $this->assertSame([1, 1], array_slice($first, 0, 2));
        Wait::until(static fn () => $sidecar->settled() === 10);
    }

    public function testRestOfARetriedBatchIsHandedOutOnce(): void
    {
        $sidecar = new Sidecar('--local-shards', '1');
        $sidecar->put(self::records(3));
        $consumer = new Consumer('test', url: $sidecar->url, ackInterval: 1.0);
        $read = [];
        foreach ($consumer->batches(3, 60.0) as $batch) {
            array_push($read, ...array_map(static fn (Record $record): int => $record->json()['n'], $batch->records));
            if (count($read) === 6) {
                $batch->ack();
                break;
            }
            $batch->records[0]->retry(0.01);
            Wait::until(static fn () => $sidecar->redelivered() === 3);
            $sidecar->put([['key', ['n' => 4]], ['key', ['n' => 5]]]);
        }
        $consumer->close();
        $this->assertSame([1, 2, 3, 1, 4, 5], $read);
        $this->assertSame(0, $consumer->failed);
        Wait::until(static fn () => $sidecar->settled() === 5);
    }

    public function testNoRecordIsLostIfTheSidecarIsKilled(): void
    {
        $sidecar = new Sidecar('--local-shards', '2');
        $sidecar->put(self::records(300, 11, ['ms' => 2]));
        $app = new App($sidecar->url, 3);
        Wait::until(static fn () => count($app->numbers('end')) > 50);
        $sidecar->kill();
        $sidecar->start();
        Wait::until(static fn () => count(array_unique($app->numbers('end'))) === 300);
        $this->assertSame(0, $app->stop());
    }

    public function testUnixSocketWithToken(): void
    {
        $folder = sys_get_temp_dir() . '/kinesis-sidecar-test-' . bin2hex(random_bytes(6));
        mkdir($folder);
        file_put_contents("$folder/token", 'secret');
        $sidecar = new Sidecar('--local-shards', '1', '--token-file', "$folder/token");
        $sidecar->setToken('secret');
        $sidecar->put(self::records(3));
        $consumer = new Consumer('test', url: "unix:{$sidecar->folder}/api", tokenFile: "$folder/token");
        $read = [];
        $consumer->run(static function (Record $record) use (&$read, $consumer): void {
            $read[] = $record->json()['n'];
            count($read) < 3 || $consumer->stop();
        });
        $this->assertSame([1, 2, 3], $read);
        $this->assertSame(3, $sidecar->settled());
        exec('rm -rf ' . escapeshellarg($folder));
    }

    public function testSecondConsumerOfAClientIdTakesOver(): void
    {
        $sidecar = new Sidecar('--local-shards', '1');
        $sidecar->put(self::records(2));
        $first = new Consumer('test', url: $sidecar->url);
        $second = new Consumer('test', url: $sidecar->url);
        $read = [];
        try {
            foreach ($first as $record) {
                foreach ($second as $other) {
                    $read[] = $other->json()['n'];
                    break;
                }
            }
            $this->fail('the first consumer does not end');
        } catch (SessionTakenOver) {
            $this->assertContains(1, $read);
        }
        $second->close();
    }

    /**
     * @param array<int> $numbers
     *
     * @return list<int>
     */
    private static function sorted(array $numbers): array
    {
        sort($numbers);

        return $numbers;
    }
}
