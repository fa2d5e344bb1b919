<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

/**
 * One connection to the scripted server, with its last request.
 */
final class Exchange
{
    public string $method = '';
    public string $path = '';
    public string $token = '';
    public string $body = '';

    /** Counts the requests of this method and path, on all connections. */
    public int $count = 0;

    private string $in = '';

    /** @param resource $socket */
    public function __construct(public readonly mixed $socket)
    {
    }

    public function read(): bool
    {
        $data = fread($this->socket, 65536);
        $this->in .= $data;

        return $data !== '' && $data !== false;
    }

    /** Takes the next whole request. */
    public function next(): bool
    {
        if (preg_match('/^(\w+) (\S+) HTTP.*?\r\n\r\n/s', $this->in, $found) !== 1) {
            return false;
        }
        [$head, $this->method, $this->path] = $found;
        $length = preg_match('/^Content-Length: (\d+)/mi', $head, $size) === 1 ? (int) $size[1] : 0;
        if (strlen($this->in) < strlen($head) + $length) {
            return false;
        }
        $this->token = preg_match('/^Authorization: Bearer (\S+)/mi', $head, $token) === 1 ? $token[1] : '';
        $this->body = substr($this->in, strlen($head), $length);
        $this->in = substr($this->in, strlen($head) + $length);

        return true;
    }

    public function isStream(): bool
    {
        return str_starts_with($this->path, '/v1/records/stream');
    }

    public function isSettle(): bool
    {
        return str_starts_with($this->path, '/v1/records/settle');
    }

    /** @param array<string, mixed> $answer */
    public function answer(int $status, array $answer, string $headers = ''): void
    {
        $body = json_encode($answer);
        $head = "HTTP/1.1 $status Test\r\nContent-Length: " . strlen($body) . "\r\n$headers\r\n";
        @fwrite($this->socket, $head . $body);
    }

    /** Accepts all settlements, or the deletion of a session. */
    public function accept(): void
    {
        $this->answer(200, ['ok' => 1, 'failed' => [], 'persisted' => true, 'positions' => []]);
    }

    /** Begins the stream. */
    public function stream(int $ackDeadlineMs = 60000, int $heartbeatMs = 10000): void
    {
        @fwrite($this->socket, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        $this->line(['type' => 'session', 'session' => 'test', 'max_in_flight' => 1000, 'heartbeat_ms' => $heartbeatMs,
            'max_in_flight_bytes' => 16 << 20, 'ack_deadline_ms' => $ackDeadlineMs]);
    }

    /** @param array<string, mixed>|string $line */
    public function line(array|string $line): void
    {
        $this->chunk((is_array($line) ? json_encode($line, JSON_UNESCAPED_SLASHES) : $line) . "\n");
    }

    public function chunk(string $line): void
    {
        @fwrite($this->socket, dechex(strlen($line)) . "\r\n" . $line . "\r\n");
    }

    /** @param array<string, mixed> $members */
    public function record(int $number, string $data = '{}', array $members = []): void
    {
        $this->line($members + [
            'type' => 'record',
            'ack_id' => "ack-$number",
            'batch_id' => "batch-$number",
            'stream' => 'test',
            'shard_id' => 'shardId-000000000000',
            'epoch' => 1,
            'sequence_number' => (string) (1000 + $number),
            'sub_sequence_number' => 0,
            'partition_key' => 'key',
            'approximate_arrival_timestamp' => '2026-11-21T00:40:00.123Z',
            'attempt' => 1,
            'data' => base64_encode($data),
        ]);
    }

    public function close(): void
    {
        fclose($this->socket);
    }
}
