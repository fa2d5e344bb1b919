<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

/**
 * The app of `app.php` in a process of its own.
 */
final class App
{
    public readonly int $pid;
    private readonly string $out;

    /** @var resource */
    private mixed $process;

    public function __construct(string $url, int $concurrency, float $ackDeadline = 60.0)
    {
        $this->out = tempnam(sys_get_temp_dir(), 'kinesis-sidecar-test-');
        $command = [PHP_BINARY, __DIR__ . '/app.php', $url, (string) $concurrency, (string) $ackDeadline];
        $this->process = proc_open($command, [1 => ['file', $this->out, 'w'], 2 => STDERR], $pipes);
        $this->pid = proc_get_status($this->process)['pid'];
    }

    public function __destruct()
    {
        is_resource($this->process) && proc_terminate($this->process, SIGKILL);
        unlink($this->out);
    }

    /** @return list<array{string, int, string}> event, number of the record, partition key */
    public function lines(): array
    {
        $lines = array_map(static fn ($line) => json_decode($line, true), file($this->out, FILE_IGNORE_NEW_LINES));

        return array_values(array_filter($lines));
    }

    /** @return list<int> numbers of the records with an event */
    public function numbers(string $event): array
    {
        $lines = array_filter($this->lines(), static fn ($line) => $line[0] === $event);

        return array_column($lines, 1);
    }

    /** Ends the app by SIGTERM. Returns its exit status. */
    public function stop(): int
    {
        proc_terminate($this->process, SIGTERM);
        $status = 0;
        Wait::until(function () use (&$status): bool {
            $state = proc_get_status($this->process);
            $status = $state['exitcode'];

            return !$state['running'];
        });
        proc_close($this->process);

        return $status;
    }
}
