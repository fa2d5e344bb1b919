<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

// app.php URL CONCURRENCY ACK_DEADLINE - handles records {"n", "fail", "ms", "exit"}, and prints what it does as lines.

use KinesisSidecar\Consumer;
use KinesisSidecar\Record;

require __DIR__ . '/bootstrap.php';

[, $url, $concurrency, $ackDeadline] = $argv;

function say(string $event, int $number, string $key): void
{
    fwrite(STDOUT, json_encode([$event, $number, $key]) . "\n");
}

$consumer = new Consumer('app', url: $url, ackDeadline: (float) $ackDeadline);
$consumer->run(static function (Record $record): void {
    $order = $record->json();
    say('begin', $order['n'], $record->partitionKey);
    if (isset($order['exit']) && $record->attempt === 1) {
        posix_kill(getmypid(), SIGKILL);
    }
    // A signal ends the sleep early.
    for ($until = microtime(true) + ($order['ms'] ?? 0) / 1000; microtime(true) < $until;) {
        usleep(10000);
    }
    $fails = $record->attempt <= ($order['fail'] ?? 0);
    say($fails ? 'fail' : 'end', $order['n'], $record->partitionKey);
    $fails && throw new RuntimeException("fail {$order['n']}");
}, (int) $concurrency);
say('stopped', 0, '');
