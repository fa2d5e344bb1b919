<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

/**
 * A real sidecar with a local stream, in a folder of its own.
 */
final class Sidecar
{
    public readonly string $url;
    public readonly string $folder;

    /** @var list<string> */
    private readonly array $command;

    /** Port of probes. */
    private readonly int $ops;

    /** @var resource */
    private mixed $process;

    public function __construct(string ...$options)
    {
        $binary = getenv('KINESIS_SIDECAR_BIN');
        if ($binary === false || !is_executable($binary)) {
            throw new \RuntimeException('KINESIS_SIDECAR_BIN must be the path of the kinesis-sidecar binary');
        }
        $this->folder = sys_get_temp_dir() . '/kinesis-sidecar-test-' . bin2hex(random_bytes(6));
        mkdir($this->folder . '/state', 0700, true);
        [$port, $this->ops] = self::freePorts();
        $this->url = "http://127.0.0.1:$port";
        $this->command = [
            $binary, '--source', "local:{$this->folder}/stream.db", '--stream', 'demo', '--application', 'demo',
            '--initial-position', 'trim_horizon', '--state-dir', "{$this->folder}/state", '--retry-backoff-ms', '50',
            '--listen', "127.0.0.1:$port,unix:{$this->folder}/api", '--ops-listen', "127.0.0.1:{$this->ops}",
            ...$options,
        ];
        $this->start();
    }

    public function __destruct()
    {
        $this->kill();
        exec('rm -rf ' . escapeshellarg($this->folder));
    }

    public function start(): void
    {
        $log = ['file', "{$this->folder}/log", 'a'];
        $this->process = proc_open($this->command, [['file', '/dev/null', 'r'], $log, $log], $pipes);
        Wait::until(fn () => @file_get_contents("http://127.0.0.1:{$this->ops}/readyz") !== false
            || $this->isRefused());
    }

    public function kill(): void
    {
        proc_terminate($this->process, SIGKILL);
        proc_close($this->process);
    }

    /** @param list<array{string, mixed}> $records partition key and value, which becomes JSON */
    public function put(array $records): void
    {
        foreach (array_chunk($records, 500) as $chunk) {
            $this->request('POST', '/v1/local/records', ['Records' => array_map(static fn ($record) => [
                'PartitionKey' => $record[0],
                'Data' => base64_encode(json_encode($record[1])),
            ], $chunk)]);
        }
    }

    /** @return array<string, mixed> */
    public function get(string $path): array
    {
        return $this->request('GET', $path);
    }

    /** Returns how many records are settled. */
    public function settled(): int
    {
        return array_sum(array_column($this->get('/v1/shards')['shards'], 'settled'));
    }

    /** Returns how many deliveries were not the first ones of their records. */
    public function redelivered(): int
    {
        $metrics = file_get_contents("http://127.0.0.1:{$this->ops}/metrics");
        $pattern = '/^kinesis_sidecar_records_redelivered_total\S* (\d+)/m';

        return preg_match($pattern, $metrics, $found) === 1 ? (int) $found[1] : 0;
    }

    public function setToken(string $token): void
    {
        file_put_contents("{$this->folder}/token", $token);
    }

    /**
     * @param array<string, mixed>|null $body
     *
     * @return array<string, mixed>
     */
    private function request(string $method, string $path, ?array $body = null): array
    {
        $context = $this->context($method, $body);

        return json_decode(file_get_contents($this->url . $path, false, $context), true, 512, JSON_THROW_ON_ERROR);
    }

    /**
     * @param array<string, mixed>|null $body
     *
     * @return resource
     */
    private function context(string $method = 'GET', ?array $body = null): mixed
    {
        $header = 'Content-Type: application/json';
        if (is_file("{$this->folder}/token")) {
            $header .= "\r\nAuthorization: Bearer " . file_get_contents("{$this->folder}/token");
        }

        return stream_context_create(['http' => [
            'method' => $method,
            'header' => $header,
            'content' => $body === null ? '' : json_encode($body),
        ]]);
    }

    private function isRefused(): bool
    {
        proc_get_status($this->process)['running']
            || throw new \RuntimeException('the sidecar ended: ' . file_get_contents("{$this->folder}/log"));

        return false;
    }

    /** @return array{int, int} */
    private static function freePorts(): array
    {
        $sockets = [stream_socket_server('tcp://127.0.0.1:0'), stream_socket_server('tcp://127.0.0.1:0')];

        return array_map(static fn ($socket) => (int) substr(stream_socket_get_name($socket, false), 10), $sockets);
    }
}
