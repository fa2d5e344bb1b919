<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

use KinesisSidecar\Record;
use PHPUnit\Framework\TestCase;

/**
 * Redeliveries in one session: of records that the app has retried, and of records that it has.
 */
final class RedeliveredRecordsTest extends TestCase
{
    private const BARRIER = ['type' => 'barrier', 'barrier' => '1'];
    private const LEASE_LOST = ['type' => 'lease_lost', 'shard_id' => 'shardId-000000000000'];

    private SteeredServer $server;
    private AgentPair $pair;

    private function begin(int ...$numbers): void
    {
        $this->server = new SteeredServer(...$numbers);
        $this->pair = new AgentPair($this->server);
    }

    /** Retries record 1. The request gets no answer. The app has not begun records 2 and 3. */
    private function retryWithoutAnAnswer(string $ordering = 'shard'): void
    {
        $this->server = new SteeredServer(1, 2, 3);
        $this->pair = new AgentPair($this->server, $ordering);
        $record = $this->pair->take(1)[0];
        $this->server->beSilent();
        $record->retry();
        $this->pair->untilOutcome('ack-1', 'retry');
    }

    private function refuseRepetition(string $reason): void
    {
        $this->server->refuse('ack-1', $reason);
        $this->pair->until(fn (): bool => $this->pair->agent->outcomes->areSent());
    }

    /** @return array{int, array<string, mixed>} */
    private static function record(int $number): array
    {
        return [$number, []];
    }

    /** @return array{int, array<string, mixed>} */
    private static function redelivery(int $number, int $attempt = 2): array
    {
        return [$number, ['ack_id' => "ack-$number.$attempt", 'attempt' => $attempt]];
    }

    /** @return array{int, array<string, mixed>} */
    private static function ofNextEpoch(int $number): array
    {
        return [$number, ['ack_id' => "next-$number", 'epoch' => 2]];
    }

    /** Asserts that the app gets these records next, and nothing else. */
    private function assertHandedOut(string ...$expected): void
    {
        $name = static fn (Record $record): string => "$record->data.$record->attempt";
        $this->assertSame($expected, array_map($name, $this->pair->take(count($expected))));
        $this->assertSame(0, $this->pair->waiting());
    }

    private function failed(): int
    {
        return $this->pair->agent->outcomes->failed;
    }

    /** @return list<string> ids of the settlements with an outcome, in their order */
    private function settled(string $outcome): array
    {
        $items = array_filter($this->server->outcomes(), static fn (array $item): bool => $item[1] === $outcome);

        return array_column($items, 0);
    }

    /** @return array<string, array{string}> */
    public function reasons(): array
    {
        return ['expired' => ['EXPIRED'], 'fenced' => ['FENCED']];
    }

    /** @dataProvider reasons */
    public function testRepeatedRetryThatIsRefusedBeforeTheRedeliveryCountsAsAccepted(string $reason): void
    {
        $this->retryWithoutAnAnswer();
        $this->pair->receive(self::BARRIER);
        $this->refuseRepetition($reason);
        $this->pair->receiveBatch('second', ...array_map(self::redelivery(...), [1, 2, 3]));
        $this->assertHandedOut('1.2', '2.2', '3.2');
        $this->assertSame(0, $this->failed());
        $this->assertNotContains('settle_failed', array_column($this->pair->events, 'type'));
    }

    /** @dataProvider reasons */
    public function testRepeatedRetryThatIsRefusedAfterTheRedeliveryCountsAsAccepted(string $reason): void
    {
        $this->retryWithoutAnAnswer();
        $this->pair->receive(self::BARRIER);
        $this->pair->receiveBatch('second', ...array_map(self::redelivery(...), [1, 2, 3]));
        $this->refuseRepetition($reason);
        $this->assertHandedOut('1.2', '2.2', '3.2');
        $this->assertSame(0, $this->failed());
    }

    /** The sidecar was restarted after it had taken the first copy and had written its barrier. */
    public function testRepeatedRetryOfAnUnknownIdHoldsItsScopeUntilTheNextSession(): void
    {
        $this->retryWithoutAnAnswer();
        $this->pair->receive(self::BARRIER);
        $this->refuseRepetition('UNKNOWN');
        $this->assertSame(0, $this->pair->waiting());
        $this->assertSame(1, $this->failed());
        $this->pair->receive(['type' => 'session']);
        $this->pair->receiveBatch('second', ...array_map(self::record(...), [1, 2, 3]));
        $this->assertHandedOut('1.1', '2.1', '3.1');
    }

    /** @return array<string, array{string}> */
    public function refusals(): array
    {
        return ['malformed' => ['MALFORMED'], 'another delivery was settled' => ['SETTLED']];
    }

    /** @dataProvider refusals */
    public function testRefusedRetryTakesNothingBack(string $reason): void
    {
        $this->retryWithoutAnAnswer();
        $this->refuseRepetition($reason);
        $this->assertSame(0, $this->pair->waiting());
        $this->pair->receive(self::BARRIER);
        $this->assertHandedOut('2.1', '3.1');
        $this->assertSame(1, $this->failed());
        $this->assertContains('settle_failed', array_column($this->pair->events, 'type'));
    }

    /** The ack deadline of record 1 has passed: both records are redelivered. */
    public function testFirstRetryThatIsExpiredWaitsForTheRedelivery(): void
    {
        $this->begin(1, 2);
        $record = $this->pair->take(1)[0];
        $this->server->refuse('ack-1', 'EXPIRED');
        $record->retry();
        $this->pair->untilOutcome('ack-1', 'retry');
        $this->pair->until(fn (): bool => $this->pair->agent->outcomes->areSent());
        $this->assertSame(0, $this->pair->waiting());
        $this->pair->receiveBatch('second', self::redelivery(1), self::redelivery(2));
        $this->pair->receive(self::BARRIER);
        $this->assertHandedOut('1.2', '2.2');
        $this->assertSame(0, $this->failed());
    }

    /** @return array<string, array{int}> */
    public function endsOfASession(): array
    {
        return ['fenced' => [409], 'expired' => [410]];
    }

    /** @dataProvider endsOfASession */
    public function testRetryOfAnEndedSessionHoldsItsScopeUntilTheNext(int $status): void
    {
        $this->begin(1, 2);
        $record = $this->pair->take(1)[0];
        $this->server->refuseSession($status);
        $record->retry();
        $this->pair->until(fn (): bool => $this->pair->agent->outcomes->stale === 1);
        $this->assertSame(0, $this->pair->waiting());
        $this->pair->receive(['type' => 'session']);
        $this->pair->receiveBatch('second', self::redelivery(1), self::redelivery(2));
        $this->assertHandedOut('1.2', '2.2');
    }

    /** An ack deadline has passed. The app has record 1. The process of the app has the others, too. */
    public function testRedeliveryReplacesTheRecordsThatTheProcessHasNotBegun(): void
    {
        $this->begin(1, 2, 3);
        $this->pair->take(1);
        $this->pair->receiveBatch('second', self::redelivery(2));
        $this->pair->flush();
        $this->assertHandedOut('2.2');
        $this->pair->receiveBatch('third', self::redelivery(3));
        $this->assertHandedOut('3.2');
    }

    /** @return array<string, array{string, list<string>}> */
    public function orderings(): array
    {
        return ['shard' => ['shard', ['2.2', '3.2']], 'none' => ['none', ['2.1', '3.1', '2.2', '3.2']]];
    }

    /**
     * @param list<string> $expected
     *
     * @dataProvider orderings
     */
    public function testRedeliveryReplacesTheRecordsOfItsScopeThatAreQueued(string $ordering, array $expected): void
    {
        $this->server = new SteeredServer(1, 2, 3);
        $this->pair = new AgentPair($this->server, $ordering, limited: true);
        $record = $this->pair->take(1)[0];
        $this->pair->receiveBatch('second', self::redelivery(2), self::redelivery(3));
        foreach ($expected as $name) {
            $record->ack();
            $this->pair->flush();
            $record = $this->pair->take(1)[0];
            $this->assertSame($name, "$record->data.$record->attempt");
        }
    }

    public function testRedeliveryReplacesTheRecordsThatARetryHolds(): void
    {
        $this->retryWithoutAnAnswer();
        $this->pair->flush();
        $this->pair->receiveBatch('second', self::redelivery(2));
        $this->refuseRepetition('MALFORMED');
        $this->pair->receive(self::BARRIER);
        $this->assertHandedOut('2.2');
    }

    public function testRepeatedDropThatIsExpiredCountsAsRefused(): void
    {
        $this->begin(1);
        $record = $this->pair->take(1)[0];
        $this->server->beSilent();
        $record->drop();
        $this->pair->untilOutcome('ack-1', 'drop');
        $this->refuseRepetition('EXPIRED');
        $this->assertSame(1, $this->failed());
    }

    public function testRetryThatIsRepeatedAfterAKeptConnectionCountsAsAccepted(): void
    {
        $this->begin(1, 2, 3);
        [$first, $second] = $this->pair->take(2);
        $first->drop();
        $this->pair->untilOutcome('ack-1', 'drop');
        $this->pair->until(fn (): bool => $this->pair->agent->outcomes->areSent());
        $this->server->beSilent();
        $second->retry();
        $this->pair->untilOutcome('ack-2', 'retry');
        $this->server->refuse('ack-2', 'EXPIRED');
        $this->pair->until(fn (): bool => $this->pair->agent->outcomes->areSent());
        $this->pair->receive(self::BARRIER);
        $this->pair->receiveBatch('second', self::redelivery(2), self::redelivery(3));
        $this->assertHandedOut('2.2', '3.2');
        $this->assertSame(0, $this->failed());
    }

    public function testRedeliveryOfARetriedRecordIsHandedOutBeforeTheAnswer(): void
    {
        $this->retryWithoutAnAnswer();
        $this->pair->receiveBatch('second', self::redelivery(1));
        $this->assertHandedOut('1.2');
    }

    public function testRecordBeforeTheRedeliveryOfARetriedRecordIsTakenBack(): void
    {
        $this->retryWithoutAnAnswer();
        $this->pair->receiveBatch('second', self::record(4), self::redelivery(1));
        $this->assertHandedOut('1.2');
    }

    public function testRedeliveryOfARetriedRecordWithoutOrderIsHandedOut(): void
    {
        $this->retryWithoutAnAnswer('none');
        $this->pair->receiveBatch('second', self::redelivery(1));
        $this->assertHandedOut('2.1', '3.1', '1.2');
    }

    public function testRedeliveriesBeforeTheBarrierAreNotTakenBack(): void
    {
        $this->retryWithoutAnAnswer();
        $this->pair->receiveBatch('second', ...array_map(self::redelivery(...), [1, 2, 3]));
        $this->refuseRepetition('EXPIRED');
        $this->pair->receive(self::BARRIER);
        $this->assertHandedOut('1.2', '2.2', '3.2');
    }

    public function testRedeliveriesBetweenTwoCopiesOfABarrierAreNotTakenBack(): void
    {
        $this->retryWithoutAnAnswer();
        $this->pair->receive(self::BARRIER);
        $this->pair->receiveBatch('second', self::redelivery(2), self::redelivery(3));
        $this->pair->receive(self::BARRIER);
        $this->refuseRepetition('EXPIRED');
        $this->assertHandedOut('2.2', '3.2');
    }

    public function testRedeliveryOfAnotherRetriedRecordDoesNotEndTheHold(): void
    {
        $this->begin(1, 2);
        [$first, $other] = $this->pair->take(2);
        $other->retry();
        $this->pair->untilOutcome('ack-2', 'retry');
        $this->pair->receive(self::BARRIER);
        $this->pair->until(fn (): bool => $this->pair->agent->outcomes->areSent());
        $this->server->beSilent();
        $first->retry();
        $this->pair->untilOutcome('ack-1', 'retry');
        $this->pair->receiveBatch('second', self::redelivery(2), self::record(3));
        $this->refuseRepetition('MALFORMED');
        $this->assertSame(0, $this->pair->waiting());
        $this->pair->receive(['type' => 'barrier', 'barrier' => '2']);
        $this->assertHandedOut('2.2', '3.1');
    }

    public function testRetryTakesBackNoRecordOfTheNextLeaseEpoch(): void
    {
        $this->retryWithoutAnAnswer();
        $this->pair->receive(self::LEASE_LOST);
        $this->pair->receiveBatch('second', self::ofNextEpoch(2));
        $this->refuseRepetition('FENCED');
        $this->pair->receive(self::BARRIER);
        $this->assertHandedOut('2.1');
    }

    /** The app has record 1 when its lease is lost. Another sidecar has settled the record. */
    public function testRetryAfterALostLeaseTakesNothingOfTheNextLeaseBack(): void
    {
        $this->begin(1);
        $record = $this->pair->take(1)[0];
        $this->pair->receive(self::LEASE_LOST);
        $this->pair->receiveBatch('second', self::ofNextEpoch(2));
        $this->server->refuse('ack-1', 'FENCED');
        $record->retry();
        $this->pair->untilOutcome('ack-1', 'retry');
        $this->pair->until(fn (): bool => $this->pair->agent->outcomes->areSent());
        $this->pair->receive(self::BARRIER);
        $this->assertHandedOut('2.1');
        $this->assertSame(0, $this->failed());
    }

    public function testRestOfABatchIsNotHandedOutAgainAfterARetryOfItsFirstRecord(): void
    {
        $this->begin(1, 2, 3);
        $records = $this->pair->take(3);
        $records[0]->retry();
        $this->pair->untilOutcome('ack-1', 'retry');
        $this->pair->receive(self::BARRIER);
        $redeliveries = array_map(self::redelivery(...), [1, 2, 3]);
        $this->pair->receiveBatch('second', ...[...$redeliveries, self::record(4)]);
        $this->assertHandedOut('1.2', '4.1');
        $records[1]->ack();
        $records[2]->drop();
        $this->pair->untilOutcome('ack-2.2', 'ack');
        $this->pair->untilOutcome('ack-3.2', 'drop');
        $this->assertCount(3, $this->server->outcomes());
    }

    /** The app has left a loop after the retry of its first record, and begins another one. */
    public function testRecordsOfALoopThatARetryTookBackAreHandedOutBehindIt(): void
    {
        $this->begin(1, 2, 3);
        $records = $this->pair->take(3);
        $records[0]->retry();
        $this->pair->untilOutcome('ack-1', 'retry');
        $this->pair->receive(self::BARRIER);
        $this->pair->until(fn (): bool => $this->pair->agent->outcomes->areSent());
        $records[1]->giveBack();
        $this->assertSame(0, $this->pair->waiting());
        $this->pair->receiveBatch('second', ...array_map(self::redelivery(...), [1, 2, 3]));
        $this->assertHandedOut('1.2', '2.2', '3.2');
    }

    public function testRecordsOfALoopAreNotHandedOutAgainAfterALostLease(): void
    {
        $this->begin(1, 2);
        $record = $this->pair->take(2)[0];
        $this->pair->receive(self::LEASE_LOST);
        $record->giveBack();
        $this->assertSame(0, $this->pair->waiting());
        $this->pair->receiveBatch('second', self::ofNextEpoch(1), self::ofNextEpoch(2));
        $this->assertHandedOut('1.1', '2.1');
    }

    public function testRecordsOfALoopAreNotHandedOutAgainAfterTheEndOfTheirSession(): void
    {
        $this->begin(1, 2);
        $record = $this->pair->take(2)[0];
        $this->pair->agent->outcomes->cut();
        $this->pair->receive(['type' => 'session']);
        $record->giveBack();
        $this->assertSame(0, $this->pair->waiting());
        $this->pair->receiveBatch('second', self::redelivery(1), self::redelivery(2));
        $this->assertHandedOut('1.2', '2.2');
    }

    public function testRecordIsNotHandedOutAgainByALaterRedelivery(): void
    {
        $this->begin(1);
        $record = $this->pair->take(1)[0];
        $this->pair->receiveBatch('second', self::redelivery(1), self::record(2));
        $this->assertHandedOut('2.1');
        $this->pair->receiveBatch('third', self::redelivery(1, 3), self::record(3));
        $this->assertHandedOut('3.1');
        $record->drop();
        $this->pair->untilOutcome('ack-1.3', 'drop');
        $this->assertCount(1, $this->server->outcomes());
    }

    /** @return array<string, array{string, string}> */
    public function outcomes(): array
    {
        return ['ack' => ['ack', 'ack'], 'drop' => ['drop', 'drop'], 'dead letter' => ['deadLetter', 'dead_letter']];
    }

    /** @dataProvider outcomes */
    public function testOutcomeWithoutAnAnswerSettlesTheRedelivery(string $method, string $outcome): void
    {
        $this->begin(1);
        $record = $this->pair->take(1)[0];
        $this->server->beSilent();
        $record->$method();
        $this->pair->flush();
        $this->pair->untilOutcome('ack-1', $outcome);
        $this->pair->receiveBatch('second', self::redelivery(1), self::record(2));
        $this->server->accept();
        $this->pair->untilOutcome('ack-1.2', $outcome);
        $this->assertHandedOut('2.1');
    }

    public function testAcknowledgementThatIsNotSentSettlesTheRedelivery(): void
    {
        $this->server = new SteeredServer(1, 2);
        $this->pair = new AgentPair($this->server, ackInterval: 3600.0);
        $this->pair->take(1)[0]->ack();
        $this->pair->flush();
        $this->pair->receiveBatch('second', self::redelivery(1), self::redelivery(2), self::record(3));
        $this->assertHandedOut('2.2', '3.1');
        $this->pair->finish();
        $this->assertSame([['ack-1.2', 'ack']], $this->server->outcomes());
    }

    public function testRetryThatIsNotSentRetriesTheRedelivery(): void
    {
        $this->begin(1, 2);
        [$record, $other] = $this->pair->take(2);
        $this->server->beSilent();
        $other->drop();
        $this->pair->untilOutcome('ack-2', 'drop');
        $record->retry();
        $this->pair->receiveBatch('second', self::redelivery(1), self::record(3));
        $this->server->accept();
        $this->pair->untilOutcome('ack-1.2', 'retry');
        $this->pair->receive(self::BARRIER);
        $this->pair->receiveBatch('third', self::redelivery(1, 3), self::redelivery(3));
        $this->assertHandedOut('1.3', '3.2');
        $this->assertSame(['ack-1.2'], $this->settled('retry'));
    }

    public function testRetryThatIsNotSentTakesBackRecordsOfTheNextLeaseEpoch(): void
    {
        $this->begin(1, 2);
        [$record, $other] = $this->pair->take(2);
        $this->server->beSilent();
        $other->drop();
        $this->pair->untilOutcome('ack-2', 'drop');
        $record->retry();
        $this->pair->receive(self::LEASE_LOST);
        $this->pair->receiveBatch('second', self::ofNextEpoch(1), self::ofNextEpoch(3));
        $this->server->accept();
        $this->pair->untilOutcome('next-1', 'retry');
        $this->pair->receive(self::BARRIER);
        $this->pair->until(fn (): bool => $this->pair->agent->outcomes->areSent());
        $this->assertSame(0, $this->pair->waiting());
        $this->pair->receiveBatch('third', self::redelivery(1), self::redelivery(3));
        $this->assertHandedOut('1.2', '3.2');
    }

    public function testRecordThatTheAppHasIsNotHandedOutAgainByTheNextLeaseEpoch(): void
    {
        $this->begin(1);
        $record = $this->pair->take(1)[0];
        $this->pair->receive(self::LEASE_LOST);
        $this->pair->receiveBatch('second', self::ofNextEpoch(1), self::ofNextEpoch(2));
        $this->assertHandedOut('2.1');
        $record->drop();
        $this->pair->untilOutcome('next-1', 'drop');
        $this->assertCount(1, $this->server->outcomes());
    }

    public function testRecordsThatAreNotBegunComeInTheOrderOfTheirRedeliveries(): void
    {
        $this->begin(1, 3);
        $this->pair->take(1);
        // The acknowledgement of record 2 by an earlier owner of the lease was lost.
        $this->pair->receiveBatch('second', self::redelivery(1), self::record(2), self::redelivery(3));
        $this->pair->flush();
        $this->assertHandedOut('2.1', '3.2');
    }

    public function testBatchIsNotAcknowledgedWhileTheAppHasARedeliveredRecordOfIt(): void
    {
        $this->begin(1, 2);
        [$first, $second] = $this->pair->take(2);
        $this->pair->receiveBatch('second', self::redelivery(2));
        $this->pair->receiveBatch('third', self::record(3));
        $first->ack();
        $this->pair->flush();
        $this->pair->untilOutcome('ack-1', 'ack');
        $second->ack();
        $this->pair->flush();
        $this->pair->untilOutcome('second', 'ack');
        $this->assertSame(['ack-1', 'second'], $this->settled('ack'));
    }

    public function testRedeliveredRecordIsExtendedWithItsLastBatchAlone(): void
    {
        $this->server = new SteeredServer(1);
        $this->pair = new AgentPair($this->server, ackDeadline: 0.3);
        $this->pair->take(1);
        $this->pair->receiveBatch('second', self::redelivery(1));
        $this->pair->untilOutcome('second', 'extend');
        $before = count($this->settled('extend'));
        $this->pair->until(fn (): bool => count($this->settled('extend')) >= $before + 2);
        $this->assertSame(['second'], array_unique(array_slice($this->settled('extend'), $before)));
    }

    public function testBatchIsNotAcknowledgedBeforeItsRecordsAfterABarrierAreHandled(): void
    {
        $this->begin(1);
        $this->pair->take(1)[0]->ack();
        $this->pair->receive(self::BARRIER);
        $this->pair->flush();
        $this->pair->untilOutcome('ack-1', 'ack');
        $this->pair->receiveBatch('first', self::record(2));
        $this->pair->receiveBatch('second', self::record(3));
        $record = $this->pair->take(1)[0];
        $this->pair->finish();
        $this->assertSame([['ack-1', 'ack']], $this->server->outcomes());
        $this->assertSame('2', $record->data);
    }

    public function testRecordsThatAreGivenBackWithARetryAreHeldInTheirOrder(): void
    {
        $this->begin(1, 2, 3);
        $record = $this->pair->take(1)[0];
        // The app is asked for records 2 and 3, and gives them back with the retry. Record 4 is queued.
        $redeliveries = array_map(self::redelivery(...), [1, 2, 3]);
        $this->pair->receiveBatch('second', ...[...$redeliveries, self::record(4)]);
        $this->server->refuse('ack-1.2', 'MALFORMED');
        $record->retry();
        $this->pair->untilOutcome('ack-1.2', 'retry');
        $this->pair->receive(self::BARRIER);
        $this->assertHandedOut('2.2', '3.2', '4.1');
    }

    public function testLostLeaseDropsNoRedrivenRecord(): void
    {
        $this->begin(1);
        $this->pair->take(1)[0]->ack();
        $this->pair->receiveBatch('second', [2, ['redriven' => true]], [3, ['redriven' => true]]);
        $this->pair->take(1)[0]->ack();
        $this->pair->receive(self::LEASE_LOST);
        $this->pair->flush();
        $this->assertHandedOut('3.1');
    }
}
