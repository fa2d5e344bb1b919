<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

use KinesisSidecar\Consumer;
use KinesisSidecar\Record;
use KinesisSidecar\SessionTakenOver;
use KinesisSidecar\SidecarError;

/**
 * Behaviour in trouble, against a scripted server.
 */
final class TroubleTest extends ScriptedCase
{
    /** Reads `$count` records and acknowledges them. */
    private function read(Consumer $consumer, int $count): array
    {
        $read = [];
        foreach ($consumer as $record) {
            $read[] = $record->data;
            if (count($read) === $count) {
                $record->ack();
                break;
            }
        }
        $consumer->close();

        return $read;
    }

    public function testRefusalOfTheStreamThrowsTheSentenceOfTheSidecar(): void
    {
        $server = $this->server(static fn ($exchange) => $exchange->answer(
            401,
            ['code' => 'unauthenticated', 'detail' => 'a token is needed']
        ));
        try {
            $this->consumer($server)->run(static fn () => null);
            $this->fail('the refusal is not thrown');
        } catch (SidecarError $error) {
            $this->assertSame(401, $error->status);
            $this->assertSame('unauthenticated', $error->reason);
            $this->assertStringContainsString('a token is needed', $error->getMessage());
        }
    }

    /** @return array<string, array{int, array<string, string>}> */
    public function transientAnswers(): array
    {
        return [
            '429' => [429, ['detail' => 'slow down']],
            '503' => [503, ['detail' => 'the sidecar starts']],
            'ordering conflict' => [
                409,
                ['type' => 'urn:kinesis-sidecar:problem:ordering-conflict', 'detail' => 'others read by key'],
            ],
        ];
    }

    /**
     * @dataProvider transientAnswers
     *
     * @param array<string, string> $answer
     */
    public function testTransientRefusalOfTheStreamIsRepeatedAfterThePause(int $status, array $answer): void
    {
        $server = $this->server(static function ($exchange) use ($status, $answer): void {
            if ($exchange->count === 1) {
                $exchange->answer($status, $answer, "Retry-After: 1\r\n");

                return;
            }
            $exchange->stream();
            $exchange->record(1, 'one');
        });
        $this->assertSame(['one'], $this->read($this->consumer($server), 1));
        $this->assertSame('disconnected', $this->events[0]['type']);
        $this->assertStringContainsString($answer['detail'], $this->events[0]['reason']);
        $this->assertGreaterThanOrEqual(1000, $this->events[0]['retry_in_ms']);
    }

    /** @return array<string, array{array<string, mixed>, string}> */
    public function wantedRecords(): array
    {
        $filter = 'filter=%7B%22a%22%3A%5B%22%2B%20%26%22%5D%7D';

        return [
            'a share' => [['share' => '0.05', 'salt' => 'v2'], 'ordering=key&lanes=64&share=0.05&salt=v2'],
            'lanes' => [['share' => '0.5', 'ordering' => 'key', 'lanes' => 8], 'ordering=key&lanes=8&share=0.5'],
            'a filter' => [['filter' => '{"a":["+ &"]}'], $filter],
            'an array' => [['filter' => ['a' => ['+ &']]], $filter],
            'nothing' => [[], ''],
        ];
    }

    /**
     * @dataProvider wantedRecords
     *
     * @param array<string, mixed> $options
     */
    public function testStreamIsAskedForTheRecordsThatTheConsumerWants(array $options, string $wanted): void
    {
        $server = $this->server(static function ($exchange): void {
            $exchange->stream();
            $exchange->record(1, 'one');
        });
        $this->assertSame(['one'], $this->read($this->consumer($server, ...$options), 1));
        $this->assertStringEndsWith(rtrim("&ack_deadline_ms=60000&$wanted", '&'), $server->requests()[0]['path']);
    }

    public function testAbsentSidecarIsWaitedFor(): void
    {
        $listener = stream_socket_server('tcp://127.0.0.1:0');
        $address = stream_socket_get_name($listener, false);
        fclose($listener);
        $note = function (array $event) use (&$consumer): void {
            $this->events[] = $event;
            count($this->events) < 3 || $consumer->stop();
        };
        $consumer = new Consumer('test', url: "http://$address", onEvent: $note);
        $consumer->run(static fn () => null);
        $this->assertSame(['disconnected', 'disconnected', 'disconnected'], $this->eventTypes());
    }

    /** @return array<string, array{\Closure}> */
    public function brokenStreams(): array
    {
        return [
            'not JSON' => [static fn ($exchange) => $exchange->line('{"type":"record",')],
            'cut record' => [static fn ($exchange) => $exchange->line('{"type":"record","ack_id":"a","ba')],
            'not a chunk' => [static fn ($exchange) => fwrite($exchange->socket, "zz\r\n")],
            'line of 33 MiB without an end' => [static fn ($exchange) => $exchange->chunk(str_repeat('x', 33 << 20))],
            'closed' => [static fn ($exchange) => $exchange->close()],
        ];
    }

    /** @dataProvider brokenStreams */
    public function testBrokenStreamIsOpenedAgain(\Closure $break): void
    {
        $server = $this->server(static function ($exchange) use ($break): void {
            $exchange->stream();
            if ($exchange->count === 1) {
                $break($exchange);
            } else {
                $exchange->record(1, 'one');
            }
        });
        $this->assertSame(['one'], $this->read($this->consumer($server), 1));
        $this->assertContains('disconnected', $this->eventTypes());
        $this->assertNotContains('three heartbeats were missed', array_column($this->events, 'reason'));
    }

    public function testRecordOf10MiBIsHandedOut(): void
    {
        $data = str_repeat('0123456789abcdef', 10 << 16);
        $server = $this->server(static function ($exchange) use ($data): void {
            $exchange->stream();
            $exchange->record(1, $data);
            $exchange->record(2, 'small');
        });
        $this->assertSame([$data, 'small'], $this->read($this->consumer($server), 2));
    }

    public function testTakeOverEndsTheRunWithoutAnotherConnection(): void
    {
        $server = $this->server(static function ($exchange): void {
            $exchange->stream();
            $exchange->line(['type' => 'ended', 'reason' => 'taken_over']);
        });
        try {
            $this->consumer($server)->run(static fn () => null);
            $this->fail('the take-over is not thrown');
        } catch (SessionTakenOver $error) {
            $this->assertStringContainsString('test', $error->getMessage());
        }
        $this->assertCount(1, $server->requests());
    }

    public function testUnknownEventsAndMembersAreReportedAndIgnored(): void
    {
        $server = $this->server(static function ($exchange): void {
            $exchange->stream();
            $exchange->line(['type' => 'weather', 'sunny' => true]);
            $exchange->record(1, 'one', ['colour' => 'red']);
        });
        $this->assertSame(['one'], $this->read($this->consumer($server), 1));
        $this->assertContains(['type' => 'weather', 'sunny' => true], $this->events);
    }

    public function testDataThatIsNotJsonIsAFailureOfTheHandler(): void
    {
        $server = $this->server(static function ($exchange): void {
            $exchange->stream();
            $exchange->record(1, 'not json');
        });
        $consumer = $this->consumer($server);
        $consumer->run(static function (Record $record) use ($consumer): void {
            $consumer->stop();
            $record->json();
        });
        $this->assertSame(
            [['ack_id' => 'ack-1', 'outcome' => 'retry', 'reason' => 'Syntax error']],
            $server->settlements()
        );
    }

    public function testCompleteBatchIsAcknowledgedAsOneAndAPartByRecord(): void
    {
        $server = $this->server(static function ($exchange): void {
            $exchange->stream();
            foreach ([1, 2] as $number) {
                $exchange->record($number, "$number", ['batch_id' => 'whole']);
            }
            $exchange->record(3, '3', ['batch_id' => 'part']);
        });
        $this->read($this->consumer($server, ackInterval: 60.0), 3);
        $this->assertSame([
            ['batch_id' => 'whole', 'outcome' => 'ack'],
            ['ack_id' => 'ack-3', 'outcome' => 'ack'],
        ], $server->settlements());
        $requests = $server->requests();
        $this->assertSame('DELETE', end($requests)['method']);
        $this->assertSame('/v1/sessions/test', end($requests)['path']);
    }

    public function testBatchWithAnotherOutcomeIsAcknowledgedByRecord(): void
    {
        $server = $this->server(static function ($exchange): void {
            $exchange->stream();
            foreach ([1, 2, 3] as $number) {
                $exchange->record($number, "$number", ['batch_id' => 'mixed']);
            }
            $exchange->record(4, '4');
        });
        $consumer = $this->consumer($server, ackInterval: 60.0);
        $consumer->run(static function (Record $record) use ($consumer): void {
            $record->data !== '2' || $record->drop();
            $record->data !== '4' || $consumer->stop();
        });
        $this->assertSame(
            ['ack-1' => 'ack', 'ack-2' => 'drop', 'ack-3' => 'ack', 'ack-4' => 'ack'],
            array_column($server->settlements(), 'outcome', 'ack_id')
        );
    }

    public function testRetryAfterOfASettleRequestIsHeededOnAKeptConnection(): void
    {
        $server = $this->server(
            static function ($exchange): void {
                $exchange->stream();
                $exchange->record(1, '1');
                $exchange->record(2, '2');
            },
            static fn ($exchange) => $exchange->count === 2
                ? $exchange->answer(503, ['detail' => 'busy'], "Retry-After: 1\r\n")
                : $exchange->accept()
        );
        $consumer = $this->consumer($server);
        $consumer->run(static function (Record $record) use ($consumer, $server): void {
            if ($record->data === '2') {
                Wait::until(static fn () => count($server->settlements()) === 1);
                $consumer->stop();
            }
        });
        $this->assertSame(['ack-2', 'ack-2'], array_column($server->settlements(), 'ack_id'));
        $times = array_column($server->requests(), 'time');
        $this->assertGreaterThanOrEqual(1.0, $times[3] - $times[2]);
    }

    public function testEventBetweenTheRecordsOfABatchDoesNotEndIt(): void
    {
        $server = $this->server(static function ($exchange): void {
            $exchange->stream();
            $exchange->record(1, '1', ['batch_id' => 'whole']);
            $exchange->line(['type' => 'heartbeat']);
            $exchange->record(2, '2', ['batch_id' => 'whole']);
            $exchange->record(3, '3', ['batch_id' => 'part']);
            $exchange->line(['type' => 'heartbeat']);
        });
        $this->read($this->consumer($server, ackInterval: 60.0), 3);
        $this->assertSame([
            ['batch_id' => 'whole', 'outcome' => 'ack'],
            ['ack_id' => 'ack-3', 'outcome' => 'ack'],
        ], $server->settlements());
    }

    public function testBatchIsRetriedFromItsEnd(): void
    {
        $server = $this->server(static function ($exchange): void {
            $exchange->stream();
            $exchange->record(1, '1');
            $exchange->record(2, '2');
        });
        $consumer = $this->consumer($server);
        foreach ($consumer->batches(2, 60.0) as $batch) {
            $batch->retry(reason: 'all');
            break;
        }
        $consumer->close();
        $this->assertSame(['ack-2', 'ack-1'], array_column($server->settlements(), 'ack_id'));
    }

    /** @return array<string, array{int}> */
    public function endedSessions(): array
    {
        return ['fenced' => [409], 'expired' => [410]];
    }

    /** @dataProvider endedSessions */
    public function testSettlementsOfAnEndedSessionAreCountedAsStale(int $status): void
    {
        $server = $this->server(
            static function ($exchange): void {
                $exchange->stream();
                $exchange->record(1, 'one');
            },
            static fn ($exchange) => $exchange->answer($status, ['code' => 'aborted', 'detail' => 'the session ended'])
        );
        $consumer = $this->consumer($server);
        $this->read($consumer, 1);
        $this->assertSame(1, $consumer->stale);
    }

    public function testRefusedItemIsCountedAsFailedAndReported(): void
    {
        $failure = ['ack_id' => 'ack-1', 'reason' => 'FENCED', 'message' => 'the lease was lost'];
        $server = $this->server(
            static function ($exchange): void {
                $exchange->stream();
                $exchange->record(1, 'one');
            },
            static fn ($exchange) => $exchange->answer(200, ['ok' => 0, 'failed' => [$failure]])
        );
        $consumer = $this->consumer($server);
        $this->read($consumer, 1);
        $this->assertSame(1, $consumer->failed);
        $this->assertContains(['type' => 'settle_failed'] + $failure, $this->events);
    }

    public function testRefusedSettleRequestThrows(): void
    {
        $server = $this->server(
            static function ($exchange): void {
                $exchange->stream();
                $exchange->record(1, 'one');
            },
            static fn ($exchange) => $exchange->answer(400, ['code' => 'failed_precondition', 'detail' => 'no file'])
        );
        $this->expectException(SidecarError::class);
        $this->expectExceptionMessage('no file');
        $this->consumer($server)->run(static fn (Record $record) => $record->deadLetter('asked'));
    }

    public function testRefusedSettleRequestTakesNoAcknowledgementAlong(): void
    {
        $server = $this->server(
            static function ($exchange): void {
                $exchange->stream();
                $exchange->record(1, 'one');
                $exchange->record(2, 'two');
            },
            static fn ($exchange) => str_contains($exchange->body, 'dead_letter')
                ? $exchange->answer(400, ['code' => 'failed_precondition', 'detail' => 'no file'])
                : $exchange->accept()
        );
        try {
            $this->consumer($server, ackInterval: 60.0)->run(
                static fn (Record $record) => $record->data === 'one' || $record->deadLetter('asked')
            );
            $this->fail('the refusal is not thrown');
        } catch (SidecarError $error) {
            $this->assertStringContainsString('no file', $error->getMessage());
        }
        $settles = array_filter($server->requests(), static fn ($request) => str_contains($request['path'], 'settle'));
        $items = array_map(static fn ($request) => json_decode($request['body'], true)['settlements'], $settles);
        $this->assertSame([1, 1], array_map('count', array_values($items)));
        $this->assertSame(['ack', 'dead_letter'], array_column(array_merge(...$items), 'outcome'));
    }

    /** @return array<string, array{\Closure}> */
    public function lostAnswers(): array
    {
        return [
            'closed connection' => [static fn ($exchange) => $exchange->close()],
            '503' => [static fn ($exchange) => $exchange->answer(503, ['detail' => 'busy'], "Retry-After: 0\r\n")],
        ];
    }

    /** @dataProvider lostAnswers */
    public function testSettleRequestWithoutAnAnswerIsRepeated(\Closure $lose): void
    {
        $server = $this->server(
            static function ($exchange): void {
                $exchange->stream();
                $exchange->record(1, 'one');
            },
            static fn ($exchange) => $exchange->count === 1 ? $lose($exchange) : $exchange->accept()
        );
        $consumer = $this->consumer($server);
        $this->read($consumer, 1);
        $this->assertSame(array_fill(0, 2, ['ack_id' => 'ack-1', 'outcome' => 'ack']), $server->settlements());
        $this->assertSame(0, $consumer->stale + $consumer->failed);
    }

    public function testTokenFileIsReadForEveryRequest(): void
    {
        $file = tempnam(sys_get_temp_dir(), 'kinesis-sidecar-test-');
        file_put_contents($file, "first\n");
        $server = $this->server(static function ($exchange): void {
            $exchange->stream();
            $exchange->record(1, 'one');
        });
        foreach ($consumer = $this->consumer($server, tokenFile: $file) as $record) {
            file_put_contents($file, "second\n");
            $record->ack();
            break;
        }
        $consumer->close();
        unlink($file);
        $this->assertSame(['first', 'second', 'second'], array_column($server->requests(), 'token'));
    }

    public function testLaterRecordsOfAShardWaitForTheRetriedOne(): void
    {
        $server = $this->server(
            static function ($exchange): void {
                $exchange->stream();
                foreach ([1, 2, 3] as $number) {
                    $exchange->record($number, "$number");
                }
            },
            static function ($exchange, $state): void {
                $barrier = json_decode($exchange->body, true)['barrier'] ?? null;
                $exchange->accept();
                if ($barrier !== null) {
                    $state->stream->record(4, '4');
                    $state->stream->line(['type' => 'barrier', 'barrier' => $barrier]);
                    foreach ([1, 2, 3, 4] as $number) {
                        $state->stream->record($number, "$number", ['batch_id' => 'again', 'attempt' => 2]);
                    }
                }
            }
        );
        $handled = [];
        $consumer = $this->consumer($server);
        $consumer->run(static function (Record $record) use (&$handled, $consumer): void {
            $handled[] = "$record->data.$record->attempt";
            count($handled) < 5 || $consumer->stop();
            $record->attempt > 1 || throw new \RuntimeException('again');
        });
        $this->assertSame(['1.1', '1.2', '2.2', '3.2', '4.2'], $handled);
    }

    public function testLaterRecordsAreHandedOutIfTheRetryIsRefused(): void
    {
        $server = $this->server(
            static function ($exchange): void {
                $exchange->stream();
                $exchange->record(1, '1');
                $exchange->record(2, '2');
            },
            static function ($exchange, $state): void {
                $barrier = json_decode($exchange->body, true)['barrier'] ?? null;
                if ($barrier === null) {
                    $exchange->accept();

                    return;
                }
                $state->stream->line(['type' => 'barrier', 'barrier' => $barrier]);
                $exchange->answer(200, ['ok' => 0, 'failed' => [['ack_id' => 'ack-1', 'reason' => 'MALFORMED']]]);
            }
        );
        $handled = [];
        $consumer = $this->consumer($server);
        $consumer->run(static function (Record $record) use (&$handled, $consumer): void {
            $handled[] = $record->data;
            $record->data === '1' ? $record->retry() : $consumer->stop();
        });
        $this->assertSame(['1', '2'], $handled);
        $this->assertSame(1, $consumer->failed);
    }

    public function testOutcomeOfAHandlerSettlesTheRedeliveryThatCameMeanwhile(): void
    {
        $server = $this->server(static function ($exchange): void {
            $exchange->stream();
            if ($exchange->count === 1) {
                $exchange->record(1, 'one', ['batch_id' => 'first']);
                $exchange->close();
            } else {
                $exchange->record(1, 'one', ['batch_id' => 'second', 'attempt' => 2]);
                $exchange->record(2, 'two');
            }
        });
        $handled = [];
        $consumer = $this->consumer($server);
        $consumer->run(function (Record $record) use (&$handled, $consumer, $server): void {
            $handled[] = $record->data;
            if ($record->data === 'one') {
                Wait::until(static fn () => count($server->requests()) >= 2);
            } else {
                $consumer->stop();
            }
        });
        $this->assertSame(['one', 'two'], $handled);
        $this->assertContains(['batch_id' => 'second', 'outcome' => 'ack'], $server->settlements());
    }

    public function testRecordsOfALostConnectionThatAreNotBegunWaitForTheirRedelivery(): void
    {
        $server = $this->server(
            static function ($exchange): void {
                if ($exchange->count === 2) {
                    $exchange->answer(503, ['detail' => 'the sidecar starts'], "Retry-After: 1\r\n");

                    return;
                }
                $exchange->stream();
                $exchange->count > 1 || $exchange->record(1, 'one');
                $exchange->record(2, 'two', ['attempt' => $exchange->count > 1 ? 2 : 1]);
            },
            static function ($exchange, $state): void {
                if (str_contains($exchange->body, '"extend"')) {
                    stream_socket_shutdown($state->stream->socket, STREAM_SHUT_RDWR);
                }
                $exchange->accept();
            }
        );
        $handled = [];
        $consumer = $this->consumer($server);
        $consumer->run(static function (Record $record) use (&$handled, $consumer, $server): void {
            $handled[] = "$record->data.$record->attempt";
            if ($record->data === 'one') {
                $record->extend(30.0);
                Wait::until(static fn () => count($server->requests()) >= 3);
            } else {
                $consumer->stop();
            }
        });
        $this->assertSame(['one.1', 'two.2'], $handled);
    }

    public function testMissedHeartbeatsEndTheConnection(): void
    {
        $server = $this->server(static function ($exchange): void {
            $exchange->stream(heartbeatMs: 100);
            $exchange->count === 1 || $exchange->record(1, 'one');
        });
        $this->assertSame(['one'], $this->read($this->consumer($server), 1));
        $this->assertContains('three heartbeats were missed', array_column($this->events, 'reason'));
    }

    public function testOutcomeWithoutAnAnswerSettlesTheRedelivery(): void
    {
        $server = $this->server(
            static function ($exchange): void {
                $exchange->stream();
                if ($exchange->count === 1) {
                    $exchange->record(1, 'one');
                } else {
                    $exchange->record(1, 'one', ['ack_id' => 'again', 'batch_id' => 'second', 'attempt' => 2]);
                    $exchange->record(2, 'two', ['batch_id' => 'second']);
                }
            },
            static function ($exchange, $state): void {
                if (str_contains($exchange->body, '"ack-1"')) {
                    $exchange->answer(503, ['detail' => 'busy'], "Retry-After: 30\r\n");
                    stream_socket_shutdown($state->stream->socket, STREAM_SHUT_RDWR);
                } else {
                    $exchange->accept();
                }
            }
        );
        $handled = [];
        $consumer = $this->consumer($server);
        $consumer->run(static function (Record $record) use (&$handled, $consumer): void {
            $handled[] = $record->data;
            $record->data === 'one' ? $record->drop() : $consumer->stop();
        });
        $this->assertSame(['one', 'two'], $handled);
        $this->assertContains(['ack_id' => 'again', 'outcome' => 'drop'], $server->settlements());
        $this->assertSame(0, $consumer->stale);
    }

    public function testRecordsOfALostLeaseThatAreNotBegunAreDropped(): void
    {
        $server = $this->server(
            static function ($exchange): void {
                $exchange->stream();
                $exchange->record(1, 'begun');
                $exchange->record(2, 'lost');
            },
            static function ($exchange, $state): void {
                if (str_contains($exchange->body, '"persisted"')) {
                    $state->stream->line(['type' => 'lease_lost', 'shard_id' => 'shardId-000000000000']);
                    $state->stream->record(3, 'other', ['shard_id' => 'shardId-000000000001']);
                }
                $exchange->accept();
            }
        );
        $handled = [];
        $consumer = $this->consumer($server);
        $consumer->run(static function (Record $record) use (&$handled, $consumer): void {
            $handled[] = $record->data;
            $record->data === 'begun' ? $record->ack(persisted: true) : $consumer->stop();
        });
        $this->assertSame(['begun', 'other'], $handled);
    }

    public function testOtherShardsAreHandedOutWhileARetryWaits(): void
    {
        $server = $this->server(
            static function ($exchange): void {
                $exchange->stream();
                $exchange->record(1, 'retried');
                $exchange->record(2, 'behind');
                $exchange->record(3, 'other', ['shard_id' => 'shardId-000000000001']);
            },
            static fn ($exchange) => $exchange->answer(503, ['detail' => 'busy'], "Retry-After: 0\r\n")
        );
        $handled = [];
        $consumer = $this->consumer($server);
        foreach ($consumer as $record) {
            $handled[] = $record->data;
            if (count($handled) === 2) {
                break;
            }
            $record->retry();
        }
        $this->assertSame(['retried', 'other'], $handled);
    }

    public function testExtensionEndsWithMaxProcessing(): void
    {
        $server = $this->server(static function ($exchange): void {
            $exchange->stream(30);
            $exchange->record(1, 'one');
        });
        $consumer = $this->consumer($server, maxProcessing: 0.0);
        $consumer->run(static function (Record $record) use ($consumer, $server): void {
            $consumer->stop();
            $record->extend(5.0);
            Wait::until(static fn () => $server->settlements() !== []);
            usleep(100000);
        });
        $extensions = array_filter($server->settlements(), static fn (array $item) => $item['outcome'] === 'extend');
        $this->assertSame([5000], array_column($extensions, 'delay_ms'));
    }

    public function testDeadlinesAreExtendedWhileAHandlerRuns(): void
    {
        $server = $this->server(static function ($exchange): void {
            $exchange->stream(300);
            $exchange->record(1, 'one');
        });
        $consumer = $this->consumer($server);
        $extends = static fn (array $item): bool => $item['outcome'] === 'extend';
        $extended = static fn (): array => array_filter($server->settlements(), $extends);
        $consumer->run(static function () use ($consumer, $extended): void {
            $consumer->stop();
            Wait::until(static fn () => count($extended()) >= 3);
        });
        $this->assertSame(['batch_id' => 'batch-1', 'outcome' => 'extend', 'delay_ms' => 300], current($extended()));
    }

    public function testSlowAnswerOfASettleRequestHoldsUpNoHandler(): void
    {
        $server = $this->server(
            static function ($exchange): void {
                $exchange->stream();
                foreach ([1, 2, 3] as $number) {
                    $exchange->record($number, "$number");
                }
            },
            static function ($exchange, $state): void {
                $state->stream->line(['type' => 'settle_request']);
                sleep(1);
                $exchange->accept();
            }
        );
        $this->assertSame(['1', '2', '3'], $this->read($this->consumer($server, ackInterval: 0.0), 3));
        $this->assertGreaterThanOrEqual(1, count($server->settlements()));
    }

    public function testForkedProcessMayNotUseTheConsumerOfItsParent(): void
    {
        $server = $this->server(static fn ($exchange) => $exchange->stream());
        $consumer = $this->consumer($server);
        $file = tempnam(sys_get_temp_dir(), 'kinesis-sidecar-test-');
        if (($pid = pcntl_fork()) === 0) {
            try {
                $consumer->run(static fn () => null);
            } catch (SidecarError $error) {
                file_put_contents($file, $error->getMessage());
            } finally {
                posix_kill(getmypid(), SIGKILL);
            }
        }
        pcntl_waitpid($pid, $status);
        $this->assertStringContainsString('belongs to the parent process', file_get_contents($file));
        unlink($file);
    }

    public function testHelperProcessThatIsKilledIsStartedAgain(): void
    {
        $server = $this->server(static function ($exchange): void {
            $exchange->stream();
            $exchange->record($exchange->count, (string) $exchange->count);
        });
        $read = [];
        $consumer = $this->consumer($server);
        foreach ($consumer as $record) {
            $read[] = $record->data;
            if (count($read) === 2) {
                break;
            }
            $children = file_get_contents('/proc/self/task/' . getmypid() . '/children');
            foreach (explode(' ', trim($children)) as $child) {
                $command = file_get_contents("/proc/$child/cmdline");
                str_contains($command, 'agent.php') && posix_kill((int) $child, SIGKILL);
            }
        }
        $consumer->close();
        $this->assertSame(['1', '2'], $read);
        $this->assertContains('disconnected', $this->eventTypes());
    }
}
