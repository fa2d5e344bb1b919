<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

use KinesisSidecar\SidecarError;

/**
 * The record stream: one connection, whose lines are read as they come.
 *
 * @internal
 */
final class Stream
{
    /** Three heartbeats of the default interval and 1 s. */
    private const SILENCE_SECONDS = 31.0;

    private const LINE_BYTES = 32 * 1024 * 1024;

    public readonly HttpConnection $connection;

    private string $rest = '';
    private float $silence = self::SILENCE_SECONDS;

    /** Time of the last bytes. */
    private float $heardAt;

    /** @throws ConnectionLost */
    public function __construct(Endpoint $endpoint, string $path, float $now)
    {
        $this->connection = new HttpConnection($endpoint);
        $this->connection->send('GET', $path);
        $this->heardAt = $now;
    }

    /** Counts the connection as lost after three missed heartbeats and 1 s. */
    public function expectHeartbeats(float $seconds): void
    {
        $this->silence = 3 * $seconds + 1.0;
    }

    public function deadline(): float
    {
        return $this->heardAt + $this->silence;
    }

    /**
     * Reads whole lines.
     *
     * @return list<string>
     *
     * @throws ConnectionLost
     * @throws SidecarError   if the sidecar refuses the stream
     */
    public function read(float $now): array
    {
        $this->heardAt = $now;
        $this->connection->receive();
        if ($this->connection->status !== 200) {
            $this->connection->complete && $this->connection->answer();

            return [];
        }
        $lines = $this->split($this->connection->takeBody());
        if ($lines === [] && $this->connection->complete) {
            throw new ConnectionLost('the sidecar ended the stream');
        }

        return $lines;
    }

    public function close(): void
    {
        $this->connection->close();
    }

    /** @return list<string> */
    private function split(string $data): array
    {
        $lines = explode("\n", $data);
        $this->rest .= $lines[0];
        $lines[0] = $this->rest;
        $this->rest = array_pop($lines);
        strlen($this->rest) <= self::LINE_BYTES || throw new ConnectionLost('a line is larger than 32 MiB');

        return $lines;
    }
}
