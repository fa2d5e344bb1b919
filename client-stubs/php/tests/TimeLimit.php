<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

use PHPUnit\Runner\AfterTestHook;
use PHPUnit\Runner\BeforeTestHook;

/**
 * Ends the suite with a failure if a test hangs. An exception would not do: a handler that throws is called again.
 */
final class TimeLimit implements BeforeTestHook, AfterTestHook
{
    private const SECONDS = 60;

    public function executeBeforeTest(string $test): void
    {
        pcntl_async_signals(true);
        // A system call that waits ends at the signal.
        pcntl_signal(SIGALRM, static function () use ($test): void {
            fwrite(STDERR, "\n$test takes more than " . self::SECONDS . " s\n");
            // The end of the process must not hang either.
            pcntl_signal(SIGALRM, SIG_DFL);
            pcntl_alarm(self::SECONDS);
            exit(1);
        }, false);
        pcntl_alarm(self::SECONDS);
    }

    public function executeAfterTest(string $test, float $time): void
    {
        pcntl_alarm(0);
    }
}
