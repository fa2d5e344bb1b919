<?php

// app.php WAY CLIENT_ID CONCURRENCY - does with each record what its data says, and prints what it did as JSON lines.
// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

use KinesisSidecar\Consumer;
use KinesisSidecar\Record;
use KinesisSidecar\SessionTakenOver;

require __DIR__ . '/../../../build/packages-test/php/vendor/autoload.php';

const ACK_DEADLINE_SECONDS = 2.0;

function say(array $line): void
{
    fwrite(STDOUT, json_encode($line, JSON_THROW_ON_ERROR) . "\n");
}

/** Sleeps; a signal does not end the sleep early. */
function pause(int $ms): void
{
    $until = hrtime(true) + $ms * 1000000;
    while (($left = $until - hrtime(true)) > 0) {
        usleep(intdiv($left, 1000) + 1);
    }
}

/** Does what the data of the record says, up to its outcome. Throws if the record is to fail. */
function handle(Record $record): void
{
    ['n' => $n, 'do' => $do] = $order = $record->json();
    $line = ['n' => $n, 'attempt' => $record->attempt];
    say($line + ['at' => 'begin']);
    $outcome = 'ack';
    if ($do === 'slow') {
        pause($order['ms']);
    } elseif ($do === 'fail' && $record->attempt <= $order['times']) {
        $outcome = 'retry';
    } elseif ($do === 'dead_letter') {
        $record->deadLetter("asked $n");
        $outcome = 'dead_letter';
    } elseif ($do === 'drop') {
        $record->drop();
        $outcome = 'drop';
    }
    say($line + ['at' => 'end', 'outcome' => $outcome]);
    $outcome !== 'retry' || throw new RuntimeException("fail $n");
}

/** Handles a record of a loop. Returns whether the loop goes on. */
function handleInLoop(Record $record): bool
{
    ['n' => $n, 'do' => $do] = $record->json();
    if (in_array($do, ['break', 'raise'], true) && $record->attempt === 1) {
        say(['n' => $n, 'attempt' => 1, 'at' => $do]);

        return $do === 'break' ? false : throw new DomainException("raise $n");
    }
    try {
        handle($record);
    } catch (RuntimeException $failure) {
        $record->retry(reason: $failure->getMessage());
    }

    return true;
}

function handleInRun(Record $record): void
{
    ['n' => $n, 'do' => $do] = $record->json();
    if ($do === 'raise' && $record->attempt === 1) {
        say(['n' => $n, 'attempt' => 1, 'at' => 'raise']);
        throw new DomainException("raise $n");
    }
    handle($record);
}

function each(Consumer $consumer): bool
{
    foreach ($consumer as $record) {
        if (!handleInLoop($record)) {
            return false;
        }
    }

    return true;
}

function batches(Consumer $consumer): bool
{
    foreach ($consumer->batches(100, 0.2) as $batch) {
        foreach ($batch as $record) {
            if (!handleInLoop($record)) {
                return false;
            }
        }
    }

    return true;
}

/** Reads as fast as it can. */
function race(Consumer $consumer): bool
{
    $count = 0;
    foreach ($consumer as $record) {
        if (++$count % 1000 === 0) {
            fwrite(STDOUT, "$count\n");
        }
    }

    return true;
}

[, $way, $clientId, $concurrency] = $argv;
$options = $way === 'race' ? ['maxInFlight' => 10000] : ['ackDeadline' => ACK_DEADLINE_SECONDS];
$consumer = new Consumer($clientId, ...$options);
pcntl_async_signals(true);
pcntl_signal(SIGTERM, static fn () => $consumer->stop());
try {
    $stopped = match ($way) {
        'run' => $consumer->run(handleInRun(...), (int) $concurrency) ?? true,
        'each' => each($consumer),
        'batches' => batches($consumer),
        'race' => race($consumer),
    };
    $consumer->close();
    $stopped && $way !== 'race' && say(['at' => 'stopped']);
} catch (DomainException) {
    // The error left the loop.
} catch (SessionTakenOver) {
    say(['at' => 'taken_over']);
    exit(3);
} finally {
    $consumer->close();
}
