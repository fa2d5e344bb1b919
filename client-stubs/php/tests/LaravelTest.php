<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

use PHPUnit\Framework\TestCase;

/**
 * The artisan command, in a process of its own.
 */
final class LaravelTest extends TestCase
{
    /**
     * @param list<string> $arguments
     *
     * @return array{resource, string} process, and the file with its output
     */
    private static function artisan(array $arguments, string $url): array
    {
        $file = tempnam(sys_get_temp_dir(), 'kinesis-sidecar-test-');
        $command = [PHP_BINARY, __DIR__ . '/laravel.php', 'kinesis-sidecar:consume', ...$arguments];
        $output = ['file', $file, 'a'];
        $environment = ['KINESIS_SIDECAR_URL' => $url] + getenv();

        return [proc_open($command, [1 => $output, 2 => $output], $pipes, null, $environment), $file];
    }

    private static function end(mixed $process): int
    {
        Wait::until(static function () use ($process, &$status): bool {
            $state = proc_get_status($process);
            $status = $state['exitcode'];

            return !$state['running'];
        });
        proc_close($process);

        return $status;
    }

    public function testCommandHandlesRecordsUntilSigterm(): void
    {
        $sidecar = new Sidecar('--local-shards', '1');
        foreach (['1', '2'] as $concurrency) {
            $sidecar->put([['key', "with $concurrency"]]);
            $arguments = ['PrintRecords', '--client-id=test', "--concurrency=$concurrency"];
            [$process, $file] = self::artisan($arguments, $sidecar->url);
            Wait::until(static fn () => str_contains(file_get_contents($file), "record \"with $concurrency\""));
            Wait::until(static fn () => $sidecar->settled() === (int) $concurrency);
            proc_terminate($process, SIGTERM);
            $this->assertSame(0, self::end($process));
            unlink($file);
        }
    }

    public function testMissingClientIdIsAnError(): void
    {
        [$process, $file] = self::artisan(['PrintRecords'], 'http://127.0.0.1:1');
        $this->assertSame(2, self::end($process));
        $this->assertStringContainsString('--client-id is missing', file_get_contents($file));
        unlink($file);
    }

    public function testRefusalIsPrinted(): void
    {
        $refusal = ['detail' => 'no such subscription'];
        $server = new ScriptedServer(static fn ($exchange) => $exchange->answer(404, $refusal));
        [$process, $file] = self::artisan(['PrintRecords', '--client-id=test'], $server->url);
        $this->assertSame(1, self::end($process));
        $this->assertStringContainsString('no such subscription', file_get_contents($file));
        unlink($file);
    }
}
