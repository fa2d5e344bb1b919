<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

use KinesisSidecar\Record;

/**
 * Outcomes that the sidecar has not confirmed, and sessions that redeliver their records, or do not.
 */
final class KeptOutcomesTest extends ScriptedCase
{
    /**
     * Serves one session after the other. One that is empty ends at once. The others end when they get a settlement,
     * without confirming it; the last one confirms.
     *
     * @param list<array{int, array<string, mixed>}> ...$sessions numbers of records, and members
     */
    private function sessions(array ...$sessions): ScriptedServer
    {
        return $this->server(
            static function ($exchange) use ($sessions): void {
                $exchange->stream();
                $records = $sessions[$exchange->count - 1];
                foreach ($records as [$number, $members]) {
                    $exchange->record($number, (string) $number, $members);
                }
                $records === [] && $exchange->close();
            },
            static function ($exchange, $state) use ($sessions): void {
                if ($state->stream->count === count($sessions)) {
                    $exchange->accept();

                    return;
                }
                $exchange->answer(503, ['detail' => 'busy'], "Retry-After: 30\r\n");
                stream_socket_shutdown($state->stream->socket, STREAM_SHUT_RDWR);
            }
        );
    }

    /**
     * Settles each record, and stops at the given one.
     *
     * @return list<string> the numbers of the records that were handed out
     */
    private function handle(ScriptedServer $server, int $last, string $settle = 'drop'): array
    {
        $handled = [];
        $consumer = $this->consumer($server);
        $consumer->run(static function (Record $record) use (&$handled, $consumer, $last, $settle): void {
            $handled[] = $record->data;
            $record->$settle();
            count($handled) === $last && $consumer->stop();
        });
        $this->assertSame(0, $consumer->stale);

        return $handled;
    }

    /** @return array<string, array{string}> */
    public function outcomes(): array
    {
        return ['ack' => ['ack'], 'drop' => ['drop']];
    }

    /** @dataProvider outcomes */
    public function testOutcomeIsKeptOverASessionWithoutItsRecord(string $outcome): void
    {
        $again = ['ack_id' => 'again', 'batch_id' => 'again', 'attempt' => 3];
        $server = $this->sessions([[1, []]], [], [[1, $again], [2, ['batch_id' => 'again']]]);
        $this->assertSame(['1', '2'], $this->handle($server, 2, $outcome));
        $this->assertContains(['ack_id' => 'again', 'outcome' => $outcome], $server->settlements());
    }

    /** @dataProvider outcomes */
    public function testOutcomeThatTwoSessionsDidNotConfirmSettlesTheRedelivery(string $outcome): void
    {
        $second = ['ack_id' => 'second', 'batch_id' => 'second', 'attempt' => 2];
        $third = ['ack_id' => 'third', 'batch_id' => 'third', 'attempt' => 3];
        $server = $this->sessions([[1, []]], [[1, $second]], [[1, $third], [2, ['batch_id' => 'third']]]);
        $this->assertSame(['1', '2'], $this->handle($server, 2, $outcome));
        foreach (['second', 'third'] as $ackId) {
            $this->assertContains(['ack_id' => $ackId, 'outcome' => $outcome], $server->settlements());
        }
    }

    public function testRedrivenRecordIsHandedOutThoughItsFirstOutcomeWasNotConfirmed(): void
    {
        $server = $this->sessions([[1, []]], [[1, ['batch_id' => 'second', 'redriven' => true]]]);
        $this->assertSame(['1', '1'], $this->handle($server, 2, 'deadLetter'));
    }

    public function testOutcomeIsForgottenIfTheSessionGoesOnWithoutItsRecord(): void
    {
        $server = $this->sessions([[1, []]], [[2, []]], [[1, ['attempt' => 2]]]);
        $this->assertSame(['1', '2', '1'], $this->handle($server, 3));
    }

    public function testLaterRedrivenRecordForgetsNoOutcome(): void
    {
        $server = $this->sessions([[1, []]], [[9, ['redriven' => true]]], [[1, ['attempt' => 2]], [2, []]]);
        $this->assertSame(['1', '9', '2'], $this->handle($server, 3));
    }
}
