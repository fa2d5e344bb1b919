<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

use KinesisSidecar\Consumer;
use PHPUnit\Framework\TestCase;

/**
 * Tests with a consumer and a scripted server.
 */
abstract class ScriptedCase extends TestCase
{
    /** @var list<array<string, mixed>> */
    protected array $events = [];

    protected function consumer(ScriptedServer $server, mixed ...$options): Consumer
    {
        return new Consumer('test', ...$options + [
            'url' => $server->url,
            'ackInterval' => 0.01,
            'onEvent' => function (array $event): void {
                $this->events[] = $event;
            },
        ]);
    }

    /** @return list<string> */
    protected function eventTypes(): array
    {
        return array_column($this->events, 'type');
    }

    /** Lets a stream begin, and accepts everything else. `$begin` writes to the stream. */
    protected function server(\Closure $begin, ?\Closure $settle = null): ScriptedServer
    {
        return new ScriptedServer(static function (Exchange $exchange, \stdClass $state) use ($begin, $settle): void {
            if ($exchange->isStream()) {
                $state->stream = $exchange;
                $begin($exchange);
            } elseif ($exchange->isSettle() && $settle !== null) {
                $settle($exchange, $state);
            } else {
                $exchange->accept();
            }
        });
    }
}
