<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

/**
 * An HTTP server in a forked process. Its answers are a script, `function (Exchange, \stdClass $state)`, called for
 * each request. It notes the requests in a file.
 */
final class ScriptedServer
{
    public readonly string $url;

    private readonly int $pid;
    private readonly string $log;

    public function __construct(\Closure $script)
    {
        $this->log = tempnam(sys_get_temp_dir(), 'kinesis-sidecar-test-');
        $listener = stream_socket_server('tcp://127.0.0.1:0');
        $this->url = 'http://' . stream_socket_get_name($listener, false);
        $this->pid = pcntl_fork();
        if ($this->pid === 0) {
            try {
                $this->serve($listener, $script);
            } finally {
                // The forked test runner must not end like the real one.
                posix_kill(getmypid(), SIGKILL);
            }
        }
        fclose($listener);
    }

    public function __destruct()
    {
        posix_kill($this->pid, SIGKILL);
        pcntl_waitpid($this->pid, $status);
        @unlink($this->log);
    }

    /** @return list<array{method: string, path: string, token: string, time: float, body: string}> */
    public function requests(): array
    {
        return array_map(static fn ($line) => json_decode($line, true), file($this->log, FILE_IGNORE_NEW_LINES));
    }

    /** @return list<array<string, mixed>> settlements of all requests, in their order */
    public function settlements(): array
    {
        $all = [];
        foreach ($this->requests() as $request) {
            if (str_starts_with($request['path'], '/v1/records/settle')) {
                array_push($all, ...json_decode($request['body'], true)['settlements']);
            }
        }

        return $all;
    }

    /** @param resource $listener */
    private function serve(mixed $listener, \Closure $script): void
    {
        $state = new \stdClass();
        $state->counts = [];
        $exchanges = [];
        while (posix_getppid() > 1) {
            $read = [$listener, ...array_map(static fn ($exchange) => $exchange->socket, $exchanges)];
            $none = null;
            if (!stream_select($read, $none, $none, 1)) {
                continue;
            }
            foreach ($read as $socket) {
                if ($socket === $listener) {
                    $accepted = stream_socket_accept($listener);
                    $exchanges[(int) $accepted] = new Exchange($accepted);
                } elseif (!$this->answer($exchanges[(int) $socket], $script, $state)) {
                    unset($exchanges[(int) $socket]);
                }
            }
        }
    }

    /** Reads from a connection. Returns false at its end. */
    private function answer(Exchange $exchange, \Closure $script, \stdClass $state): bool
    {
        if (!$exchange->read()) {
            return false;
        }
        while ($exchange->next()) {
            $note = ['method' => $exchange->method, 'path' => $exchange->path, 'token' => $exchange->token];
            $note['time'] = hrtime(true) / 1e9;
            file_put_contents($this->log, json_encode($note + ['body' => $exchange->body]) . "\n", FILE_APPEND);
            $kind = $exchange->method . ' ' . strtok($exchange->path, '?');
            $state->counts[$kind] = ($state->counts[$kind] ?? 0) + 1;
            $exchange->count = $state->counts[$kind];
            $script($exchange, $state);
        }

        return is_resource($exchange->socket);
    }
}
