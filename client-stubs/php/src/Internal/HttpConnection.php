<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

use KinesisSidecar\SidecarError;

/**
 * A non-blocking HTTP/1.1 connection: one request at a time, whose answer is read as it comes.
 *
 * @internal
 */
final class HttpConnection
{
    /** Statuses after which the package tries again. */
    private const TRANSIENT = [429, 500, 502, 503, 504];

    private const READ_BYTES = 262144;
    private const HEAD_BYTES = 65536;
    private const SIZE_LINE_BYTES = 256;

    /** @var resource */
    public readonly mixed $socket;

    public int $status = 0;

    /** The answer is complete. */
    public bool $complete = true;

    private string $out = '';
    private string $in = '';
    private string $body = '';
    private bool $chunked = false;
    private bool $lastChunk = false;

    /** Bytes of the body, or of the chunk, that are still to come; -1: a chunk size comes next. */
    private int $left = 0;

    /** @var array<string, string> */
    private array $headers = [];

    /** @throws ConnectionLost */
    public function __construct(private readonly Endpoint $endpoint)
    {
        $this->socket = $endpoint->connect();
    }

    /** @throws ConnectionLost */
    public function send(string $method, string $path, ?string $body = null): void
    {
        $this->out = $this->endpoint->request($method, $path, $body);
        $this->complete = false;
        $this->status = 0;
        $this->headers = [];
        $this->body = '';
        $this->flush();
    }

    public function hasOutput(): bool
    {
        return $this->out !== '';
    }

    public function flush(): void
    {
        if ($this->out !== '') {
            $this->out = substr($this->out, (int) @fwrite($this->socket, $this->out));
        }
    }

    /**
     * Reads what is there.
     *
     * @throws ConnectionLost at the end of the connection, and for bytes that are not HTTP
     */
    public function receive(): void
    {
        $data = @fread($this->socket, self::READ_BYTES);
        if ($data === '' || $data === false) {
            if (feof($this->socket)) {
                throw new ConnectionLost('the sidecar ended the connection');
            }

            return;
        }
        $this->in = $this->in === '' ? $data : $this->in . $data;
        if ($this->status === 0 && !$this->readHead()) {
            return;
        }
        $this->chunked ? $this->readChunks() : $this->readBytes();
    }

    /** Returns the part of the body that came since the last call. */
    public function takeBody(): string
    {
        $body = $this->body;
        $this->body = '';

        return $body;
    }

    /**
     * Returns the JSON object of a complete answer of status 200.
     *
     * @return array<string, mixed>
     *
     * @throws ConnectionLost for answers after which the package tries again
     * @throws SidecarError   for refusals
     */
    public function answer(): array
    {
        $answer = json_decode($this->takeBody(), true);
        if ($this->status === 200) {
            return is_array($answer) ? $answer : throw new ConnectionLost('the answer is not JSON');
        }
        $answer = is_array($answer) ? $answer : [];
        $detail = $answer['detail'] ?? $answer['title'] ?? 'the sidecar refused the request';
        $code = $answer['code'] ?? '';
        $transient = in_array($this->status, self::TRANSIENT, true);
        if ($transient || ($this->status === 409 && str_contains($answer['type'] ?? '', 'ordering-conflict'))) {
            throw new ConnectionLost("{$this->status} $detail", (float) ($this->headers['retry-after'] ?? 0));
        }

        throw new SidecarError("{$this->status} $detail", $this->status, $code);
    }

    public function closesAfterAnswer(): bool
    {
        return strtolower($this->headers['connection'] ?? '') === 'close';
    }

    public function close(): void
    {
        fclose($this->socket);
    }

    private function readHead(): bool
    {
        $end = strpos($this->in, "\r\n\r\n");
        if ($end === false) {
            strlen($this->in) <= self::HEAD_BYTES || throw new ConnectionLost('the head of the answer is too large');

            return false;
        }
        $lines = explode("\r\n", substr($this->in, 0, $end));
        if (preg_match('~^HTTP/1\.[01] (\d{3})~', $lines[0], $found) !== 1) {
            throw new ConnectionLost('the answer is not HTTP/1.1');
        }
        foreach (array_slice($lines, 1) as $line) {
            [$name, $value] = explode(':', $line, 2) + [1 => ''];
            $this->headers[strtolower($name)] = trim($value);
        }
        $this->status = (int) $found[1];
        $this->in = substr($this->in, $end + 4);
        $this->chunked = strtolower($this->headers['transfer-encoding'] ?? '') === 'chunked';
        $this->left = $this->chunked ? -1 : (int) ($this->headers['content-length'] ?? 0);

        return true;
    }

    private function readBytes(): void
    {
        $this->body .= substr($this->in, 0, $this->left);
        $this->left -= min($this->left, strlen($this->in));
        $this->in = '';
        $this->complete = $this->left === 0;
    }

    private function readChunks(): void
    {
        $at = 0;
        $length = strlen($this->in);
        while ($at < $length) {
            if ($this->left < 0) {
                $end = strpos($this->in, "\r\n", $at);
                if ($end === false) {
                    break;
                }
                $this->left = $this->chunkSize(substr($this->in, $at, $end - $at)) + 2;
                $at = $end + 2;
                $this->lastChunk = $this->left === 2;
                continue;
            }
            $part = min($this->left, $length - $at);
            // The last two bytes of `left` are the line end after the chunk.
            $data = min($part, $this->left - 2);
            if ($data > 0) {
                $this->body .= substr($this->in, $at, $data);
            }
            $at += $part;
            $this->left -= $part;
            if ($this->left === 0) {
                $this->left = -1;
                $this->complete = $this->lastChunk;
            }
        }
        $this->in = substr($this->in, $at);
        strlen($this->in) <= self::SIZE_LINE_BYTES || throw new ConnectionLost('a chunk has no size');
    }

    private function chunkSize(string $line): int
    {
        if (preg_match('/^[0-9a-fA-F]{1,8}(?:[ \t]*;.*)?$/', $line) !== 1) {
            throw new ConnectionLost('a chunk has no size');
        }

        return (int) hexdec(strtok($line, "; \t"));
    }
}
