<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

/**
 * Lines over a non-blocking socket between an app's process and the process that talks to the sidecar.
 *
 * @internal
 */
final class Channel
{
    private const READ_BYTES = 262144;

    /** Bytes of a chunk: a socket that takes a part of a chunk costs one copy of it. */
    private const CHUNK_BYTES = 65536;

    /** @var list<string> chunks that the socket did not take yet */
    private array $out = [];

    private string $rest = '';

    /** @param resource $socket */
    public function __construct(public readonly mixed $socket)
    {
        stream_set_blocking($socket, false);
        stream_set_read_buffer($socket, 0);
        stream_set_write_buffer($socket, 0);
    }

    public function write(string ...$lines): void
    {
        $chunk = array_pop($this->out) ?? '';
        foreach ($lines as $line) {
            if (strlen($chunk) >= self::CHUNK_BYTES) {
                $this->out[] = $chunk;
                $chunk = '';
            }
            $chunk .= $line;
            $chunk .= "\n";
        }
        $this->out[] = $chunk;
    }

    /** @param list<mixed> $message */
    public function tell(array $message): void
    {
        $this->write(json_encode(
            $message,
            JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_INVALID_UTF8_SUBSTITUTE | JSON_THROW_ON_ERROR
        ));
    }

    public function hasOutput(): bool
    {
        return $this->out !== [];
    }

    /** Writes what the socket takes. Output to a peer that is gone is kept: reading tells that it is gone. */
    public function flush(): void
    {
        $done = 0;
        foreach ($this->out as $chunk) {
            $written = (int) @fwrite($this->socket, $chunk);
            if ($written < strlen($chunk)) {
                $this->out[$done] = substr($chunk, $written);
                break;
            }
            $done++;
        }
        if ($done > 0) {
            array_splice($this->out, 0, $done);
        }
    }

    /**
     * Reads whole lines.
     *
     * @return list<string>|null null: the peer is gone
     */
    public function read(): ?array
    {
        $data = @fread($this->socket, self::READ_BYTES);
        if ($data === '' || $data === false) {
            return feof($this->socket) ? null : [];
        }
        $lines = explode("\n", $data);
        $this->rest .= $lines[0];
        $lines[0] = $this->rest;
        $this->rest = array_pop($lines);

        return $lines;
    }

    public function close(): void
    {
        fclose($this->socket);
    }
}
