<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar;

use KinesisSidecar\Internal\AgentLink;
use KinesisSidecar\Internal\AgentSpawner;
use KinesisSidecar\Internal\Link;
use KinesisSidecar\Internal\Options;
use KinesisSidecar\Internal\Signals;
use KinesisSidecar\Internal\Workers;

/**
 * Reads the records of a stream from kinesis-sidecar and settles them.
 *
 * @implements \IteratorAggregate<int, Record>
 */
class Consumer implements \IteratorAggregate
{
    /** Settlements that came after the end of their session: the records are redelivered. */
    public int $stale = 0;

    /** Settlements that the sidecar refused one by one. */
    public int $failed = 0;

    private readonly Options $options;
    private ?\Closure $onEvent;
    private ?Link $link = null;
    private ?Workers $workers = null;
    private bool $closed = false;

    /** @var list<Record> that a loop handed out last */
    private array $withLoop = [];

    private readonly int $owner;

    /**
     * Opens nothing: the first record that is asked for opens the stream.
     *
     * @param string $clientId names the session; the process that took the name last has it
     * @param int $maxInFlight maximum records delivered and not settled
     * @param int $maxInFlightBytes the same in bytes
     * @param float $ackDeadline seconds after which a record that is neither settled nor extended is redelivered
     * @param float $maxProcessing seconds for which the ack deadline of a record is extended
     * @param float $ackInterval seconds for which an acknowledgement waits for others
     * @param 'shard'|'key'|'none'|null $ordering what stays in order; null: `shard`; `key` with a
     *     concurrency above 1 or a share
     * @param int|null $lanes lanes of a shard with the ordering `key`, 1 to 64; null: 64, if the ordering is null, too
     * @param list<string> $shards shard ids to read; none: all
     * @param string|null $subscription is needed if the sidecar has several
     * @param (callable(array<string, mixed>): mixed)|null $onEvent gets each control event of the stream, and
     *     `disconnected` and `settle_failed`
     * @param string|null $url `http://HOST:PORT` or `unix:/PATH`; null: of `KINESIS_SIDECAR_URL`
     * @param string|null $tokenFile file with the bearer token; null: of `KINESIS_SIDECAR_TOKEN_FILE`
     * @param string|null $share part of the partition keys to read, a decimal like `"0.05"`; consumers without a share
     *     get all other keys, and must have the same ordering and lanes; null: none
     * @param string|null $salt which keys are in the share: another salt, other keys
     * @param string|array<string, mixed>|null $filter pattern of the records to read, as JSON or an array; all other
     *     records count as settled; all open consumers of a subscription have the same filter; null: none
     */
    public function __construct(
        public readonly string $clientId,
        int $maxInFlight = 1000,
        int $maxInFlightBytes = 16 * 1024 * 1024,
        float $ackDeadline = 60.0,
        float $maxProcessing = 3600.0,
        float $ackInterval = 0.1,
        ?string $ordering = null,
        ?int $lanes = null,
        array $shards = [],
        ?string $subscription = null,
        ?callable $onEvent = null,
        ?string $url = null,
        ?string $tokenFile = null,
        ?string $share = null,
        ?string $salt = null,
        string|array|null $filter = null,
    ) {
        $options = new Options(
            $clientId,
            $maxInFlight,
            $maxInFlightBytes,
            $ackDeadline,
            $maxProcessing,
            $ackInterval,
            $ordering,
            $lanes,
            array_values($shards),
            $subscription,
            Options::url($url),
            Options::tokenFile($tokenFile),
            $share,
            $salt,
            is_array($filter) ? json_encode($filter, JSON_THROW_ON_ERROR) : $filter,
        );
        $this->options = $options->forConcurrency(1);
        $this->onEvent = $onEvent === null ? null : $onEvent(...);
        $this->owner = (int) getmypid();
    }

    public function __destruct()
    {
        try {
            getmypid() === $this->owner && $this->close();
        } catch (SidecarError | SessionTakenOver) {
            // The sidecar redelivers what it refused to settle.
        }
    }

    /**
     * Calls the handler with each record, until SIGTERM, SIGINT or `stop()`; then closes the consumer. A handler that
     * returns acknowledges the record; a handler that throws retries it.
     *
     * @param callable(Record): mixed     $handler
     * @param int                         $concurrency above 1: this many forked processes call the handler
     * @param (callable(int): mixed)|null $onWorker    is called in each forked process, with its number from 1, before
     *                                                 the handler
     *
     * @throws SidecarError
     * @throws SessionTakenOver
     */
    public function run(callable $handler, int $concurrency = 1, ?callable $onWorker = null): void
    {
        $concurrency >= 1 || throw new \InvalidArgumentException("concurrency must be 1 or more, got $concurrency");
        $signals = new Signals($this->stop(...));
        try {
            if ($this->closed) {
                return;
            }
            if ($concurrency === 1) {
                $this->handleAll($this->link(), $handler);
            } else {
                $this->fork($handler, $concurrency, $onWorker);
            }
        } finally {
            $signals->release();
            $this->close();
        }
    }

    /**
     * Hands out one record after the other. A record is acknowledged when the next one is asked for. If the loop is
     * left, the next loop hands its record out again, unless it has an outcome by then.
     *
     * @return \Generator<int, Record>
     *
     * @throws SidecarError
     * @throws SessionTakenOver
     */
    public function getIterator(): \Generator
    {
        $link = $this->beginLoop();
        while (!$this->closed && $link->await(1, null) > 0) {
            $record = $link->take();
            $this->withLoop = [$record];
            yield $record;
            $record->ack();
        }
    }

    /**
     * Hands out lists of records. The records of a batch are acknowledged when the next one is asked for. A loop that
     * is left is as that over records.
     *
     * @param int   $maxRecords records of a batch at most
     * @param float $maxWait    seconds from the first record on
     *
     * @return \Generator<int, Batch>
     *
     * @throws SidecarError
     * @throws SessionTakenOver
     */
    public function batches(int $maxRecords = 500, float $maxWait = 1.0): \Generator
    {
        $maxRecords >= 1 || throw new \InvalidArgumentException("maxRecords must be 1 or more, got $maxRecords");
        $link = $this->beginLoop();
        while (!$this->closed && $link->await(1, null) > 0) {
            $count = min($link->await($maxRecords, $maxWait), $maxRecords);
            if ($count === 0) {
                // The session ended meanwhile: the records are redelivered.
                continue;
            }
            $records = [];
            for ($i = 0; $i < $count; $i++) {
                $records[] = $link->take();
            }
            $batch = new Batch($records);
            $this->withLoop = $records;
            yield $batch;
            $batch->ack();
        }
    }

    /** Ends `run()`, the iteration and the batches before the next record. May be called by a signal handler. */
    public function stop(): void
    {
        $this->closed = true;
        $this->link?->stop();
        $this->workers?->stop();
    }

    /**
     * Sends the outcomes and ends the session. The sidecar redelivers all records without an outcome at once.
     *
     * @throws SidecarError if the sidecar refuses the last outcomes
     */
    public function close(): void
    {
        $this->checkOwner();
        $this->stop();
        $link = $this->link;
        $this->link = null;
        $link?->close();
    }

    /** @internal */
    protected function open(): Link
    {
        $counted = function (int $stale, int $failed): void {
            $this->stale += $stale;
            $this->failed += $failed;
        };
        $spawner = new AgentSpawner($this->options);

        return new AgentLink($spawner, $this->report(...), $counted, $this->clientId);
    }

    /** @internal */
    protected function fork(callable $handler, int $concurrency, ?callable $onWorker): void
    {
        $this->checkOwner();
        $work = function (Link $link, int $number) use ($handler, $onWorker): void {
            $onWorker === null || $onWorker($number);
            $this->handleAll($link, $handler);
        };
        $options = $this->options->forConcurrency($concurrency);
        $this->workers = new Workers($options, $concurrency, $this->report(...), $work);
        try {
            $this->workers->run();
        } finally {
            $this->stale += $this->workers->agent->outcomes->stale;
            $this->failed += $this->workers->agent->outcomes->failed;
            $this->workers = null;
        }
    }

    /** @internal */
    protected function handleAll(Link $link, callable $handler): void
    {
        while ($link->await(1, null) > 0) {
            $record = $link->take();
            try {
                $handler($record);
            } catch (\Throwable $error) {
                $record->retry(null, $error->getMessage() ?: $error::class);
                continue;
            }
            $record->ack();
        }
    }

    /** Returns null if the consumer is closed. */
    private function beginLoop(): ?Link
    {
        if ($this->closed) {
            return null;
        }
        $link = $this->link();
        foreach ($this->withLoop as $record) {
            // The first one without an outcome gives the later ones back, too.
            if ($record->giveBack()) {
                break;
            }
        }
        $this->withLoop = [];

        return $link;
    }

    private function link(): Link
    {
        $this->checkOwner();

        return $this->link ??= $this->open();
    }

    private function checkOwner(): void
    {
        getmypid() === $this->owner
            || throw new SidecarError('the consumer belongs to the parent process: make one after the fork');
    }

    private function report(string $event): void
    {
        $this->onEvent === null || ($this->onEvent)(json_decode($event, true, 512, JSON_THROW_ON_ERROR));
    }
}
