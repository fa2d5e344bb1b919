<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

/**
 * Address of the sidecar, and the file with the token.
 *
 * @internal
 */
final class Endpoint
{
    /** A sidecar is on this machine: it accepts a connection at once or not at all. */
    private const CONNECT_SECONDS = 5.0;

    private readonly string $address;
    private readonly string $host;

    public function __construct(private readonly string $url, private readonly ?string $tokenFile)
    {
        if (str_starts_with($url, 'unix:')) {
            $this->address = 'unix://' . substr($url, strlen('unix:'));
            $this->host = 'localhost';

            return;
        }
        $parts = self::check($url);
        $port = $parts['port'] ?? 80;
        $this->host = $parts['host'] . ':' . $port;
        $this->address = 'tcp://' . $this->host;
    }

    /** @return array{host?: string, port?: int} */
    public static function check(string $url): array
    {
        if (str_starts_with($url, 'unix:/')) {
            return [];
        }
        $parts = parse_url($url);
        if (!is_array($parts) || ($parts['scheme'] ?? '') !== 'http' || !isset($parts['host'])) {
            throw new \InvalidArgumentException("url must be http://HOST:PORT or unix:/PATH, got $url");
        }

        return $parts;
    }

    /**
     * @return resource
     *
     * @throws ConnectionLost
     */
    public function connect(): mixed
    {
        $socket = @stream_socket_client($this->address, $code, $reason, self::CONNECT_SECONDS);
        if ($socket === false) {
            throw new ConnectionLost("cannot connect to {$this->url}: $reason");
        }
        stream_set_blocking($socket, false);
        stream_set_read_buffer($socket, 0);
        stream_set_write_buffer($socket, 0);

        return $socket;
    }

    /**
     * Writes a request.
     *
     * @throws ConnectionLost if the token file cannot be read: it may be replaced just now
     */
    public function request(string $method, string $path, ?string $body = null): string
    {
        $head = "$method $path HTTP/1.1\r\nHost: {$this->host}\r\nAccept: application/x-ndjson, application/json\r\n";
        if ($this->tokenFile !== null) {
            $token = @file_get_contents($this->tokenFile);
            $token !== false || throw new ConnectionLost("cannot read the token file {$this->tokenFile}");
            $head .= 'Authorization: Bearer ' . trim($token) . "\r\n";
        }
        if ($body !== null) {
            $head .= "Content-Type: application/json\r\nContent-Length: " . strlen($body) . "\r\n";
        }

        return $head . "\r\n" . $body;
    }
}
