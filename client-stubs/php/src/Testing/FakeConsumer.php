<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Testing;

use KinesisSidecar\Consumer;
use KinesisSidecar\Internal\Link;
use KinesisSidecar\Record;

/**
 * A consumer without a network, for tests of handlers. `run()`, the iteration and the batches end when all records were
 * handed out. `run()` calls the handler in this process, whatever its concurrency is.
 */
final class FakeConsumer extends Consumer
{
    private readonly MemoryLink $memory;

    /** @param int $maxAttempts a record that is retried is redelivered until its attempt has this number */
    public function __construct(string $clientId = 'test', int $maxAttempts = 1)
    {
        parent::__construct($clientId, url: 'http://127.0.0.1:8990');
        $this->memory = new MemoryLink($maxAttempts);
    }

    /**
     * Adds a record.
     *
     * @param mixed                $data    bytes; anything but a string becomes JSON
     * @param array<string, mixed> $members further members, as the sidecar names them, for example `shard_id`
     */
    public function put(mixed $data, string $partitionKey = 'key', array $members = []): void
    {
        $bytes = is_string($data) ? $data : json_encode($data, JSON_THROW_ON_ERROR);
        $this->memory->put($bytes, $partitionKey, $members);
    }

    /** @return list<FakeOutcome> in the order of the app */
    public function outcomes(): array
    {
        return $this->memory->outcomes;
    }

    /** @return list<Record> records that were handed out and have no outcome */
    public function unsettled(): array
    {
        return $this->memory->unsettled();
    }

    /** @internal */
    protected function open(): Link
    {
        return $this->memory;
    }

    /** @internal */
    protected function fork(callable $handler, int $concurrency, ?callable $onWorker): void
    {
        $onWorker === null || $onWorker(1);
        $this->handleAll($this->memory, $handler);
    }
}
