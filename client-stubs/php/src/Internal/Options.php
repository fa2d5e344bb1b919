<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

/**
 * Options of a consumer, checked. They travel to the process that talks to the sidecar as JSON.
 *
 * @internal
 */
final class Options
{
    private const LANES_MAX = 64;

    private const DEFAULT_URL = 'http://127.0.0.1:8990';

    /** @param list<string> $shards */
    public function __construct(
        public readonly string $clientId,
        public readonly int $maxInFlight,
        public readonly int $maxInFlightBytes,
        public readonly float $ackDeadline,
        public readonly float $maxProcessing,
        public readonly float $ackInterval,
        public readonly ?string $ordering,
        public readonly ?int $lanes,
        public readonly array $shards,
        public readonly ?string $subscription,
        public readonly string $url,
        public readonly ?string $tokenFile,
        public readonly ?string $share = null,
        public readonly ?string $salt = null,
        public readonly ?string $filter = null,
    ) {
        $ordered = in_array($ordering, [null, 'shard', 'key', 'none'], true);
        $ordered || throw new \InvalidArgumentException("ordering must be shard, key or none, got $ordering");
        $clientId !== '' || throw new \InvalidArgumentException('client_id must be 1..64 characters, got none');
        Endpoint::check($url);
    }

    /** Returns the URL of the option, of the environment, or the default. */
    public static function url(?string $url): string
    {
        return $url ?? (getenv('KINESIS_SIDECAR_URL') ?: self::DEFAULT_URL);
    }

    public static function tokenFile(?string $path): ?string
    {
        return $path ?? (getenv('KINESIS_SIDECAR_TOKEN_FILE') ?: null);
    }

    public static function parse(string $json): self
    {
        return new self(...json_decode($json, true, 8, JSON_THROW_ON_ERROR));
    }

    public function json(): string
    {
        return json_encode(get_object_vars($this), JSON_PRESERVE_ZERO_FRACTION | JSON_THROW_ON_ERROR);
    }

    /** Returns these options for `$concurrency` handlers at a time. */
    public function forConcurrency(int $concurrency): self
    {
        if (($concurrency === 1 && $this->share === null) || $this->ordering !== null) {
            return $this;
        }

        return new self(...['ordering' => 'key', 'lanes' => $this->lanes ?? self::LANES_MAX] + get_object_vars($this));
    }

    public function streamPath(): string
    {
        return $this->path('/v1/records/stream', [
            'client_id' => $this->clientId,
            'max_in_flight' => $this->maxInFlight,
            'max_in_flight_bytes' => $this->maxInFlightBytes,
            'ack_deadline_ms' => (int) round($this->ackDeadline * 1000),
            'ordering' => $this->ordering,
            'lanes' => $this->lanes,
            'shards' => $this->shards === [] ? null : implode(',', $this->shards),
            'share' => $this->share,
            'salt' => $this->salt,
            'filter' => $this->filter,
        ]);
    }

    public function settlePath(): string
    {
        return $this->path('/v1/records/settle', []);
    }

    public function sessionPath(): string
    {
        return $this->path('/v1/sessions/' . rawurlencode($this->clientId), []);
    }

    /** @param array<string, int|string|null> $query */
    private function path(string $path, array $query): string
    {
        $query = http_build_query($query + ['subscription' => $this->subscription], '', '&', PHP_QUERY_RFC3986);

        return $query === '' ? $path : "$path?$query";
    }
}
