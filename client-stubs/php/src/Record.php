<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar;

use DateTimeImmutable;
use KinesisSidecar\Internal\Line;
use KinesisSidecar\Internal\Link;

/**
 * One delivered record. Its members are parsed when they are read for the first time.
 *
 * @property-read string            $data              bytes, as they were put
 * @property-read string            $partitionKey
 * @property-read string            $stream            name or ARN
 * @property-read string            $shardId
 * @property-read string            $sequenceNumber    decimal number of up to 128 bits; compare it as such
 * @property-read int               $subSequenceNumber place in a KPL aggregate, from 0
 * @property-read int               $epoch             lease epoch
 * @property-read int               $attempt           delivery, from 1
 * @property-read DateTimeImmutable $arrivedAt         approximate arrival
 * @property-read bool              $aggregated        a KPL aggregate that could not be taken apart
 * @property-read bool              $redriven          a dead letter that is delivered again
 */
final class Record
{
    private const MEMBERS = [
        'partitionKey' => 'partition_key',
        'stream' => 'stream',
        'shardId' => 'shard_id',
        'sequenceNumber' => 'sequence_number',
        'subSequenceNumber' => 'sub_sequence_number',
        'epoch' => 'epoch',
        'attempt' => 'attempt',
        'arrivedAt' => 'approximate_arrival_timestamp',
        'aggregated' => 'aggregated',
        'redriven' => 'redriven',
        'data' => 'data',
    ];

    private ?Outcome $outcome = null;

    /** @var array<string, mixed>|null */
    private ?array $head = null;

    private ?string $bytes = null;

    /**
     * @internal records are made by a consumer
     *
     * @param string $line the record as a line of the stream
     */
    public function __construct(
        private readonly Link $link,
        private readonly int $number,
        private readonly string $line,
    ) {
    }

    public function __get(string $name): mixed
    {
        if ($name === 'data') {
            return $this->bytes ??= Line::data($this->line);
        }
        $member = self::MEMBERS[$name] ?? throw new \LogicException("a record does not have a member $name");
        $value = ($this->head ??= Line::head($this->line))[$member] ?? null;

        return match ($name) {
            'arrivedAt' => new DateTimeImmutable($value ?? '@0'),
            'aggregated', 'redriven' => (bool) $value,
            'subSequenceNumber', 'epoch' => $value ?? 0,
            'attempt' => $value ?? 1,
            default => $value ?? '',
        };
    }

    /**
     * @internal the app left the loop that has the record
     *
     * @return bool false: the record has an outcome
     */
    public function giveBack(): bool
    {
        $isOpen = $this->outcome === null;
        $isOpen && $this->link->giveBack($this->number);

        return $isOpen;
    }

    public function __isset(string $name): bool
    {
        return isset(self::MEMBERS[$name]);
    }

    /**
     * Returns `data` parsed as JSON: objects as associative arrays, or as objects with `$associative` false.
     *
     * @throws \JsonException if the data is not JSON
     */
    public function json(bool $associative = true): mixed
    {
        return json_decode($this->__get('data'), $associative, 512, JSON_THROW_ON_ERROR);
    }

    /** Returns the outcome, or null while the record has none. */
    public function outcome(): ?Outcome
    {
        return $this->outcome;
    }

    /**
     * Acknowledges the record.
     *
     * @param bool $persisted waits until the checkpoint in the lease table covers the record
     *
     * @return bool whether the checkpoint covers the record; false if that was not asked for
     */
    public function ack(bool $persisted = false): bool
    {
        if ($this->outcome !== null) {
            return false;
        }
        $this->outcome = Outcome::Ack;
        if ($persisted) {
            return $this->link->persist($this->number);
        }
        $this->link->ack($this->number);

        return false;
    }

    /**
     * Redelivers the record.
     *
     * @param float|null $delay  seconds until then at least; null: by the back-off of the sidecar
     * @param string     $reason is kept with the dead letter, if the record becomes one
     */
    public function retry(?float $delay = null, string $reason = ''): void
    {
        $this->settle(Outcome::Retry, $delay, $reason);
    }

    /** Gives the record up and keeps it as a dead letter. */
    public function deadLetter(string $reason = ''): void
    {
        $this->settle(Outcome::DeadLetter, null, $reason);
    }

    /** Gives the record up and does not keep it. */
    public function drop(): void
    {
        $this->settle(Outcome::Drop, null, '');
    }

    /** Moves the ack deadline to `$duration` seconds from now. */
    public function extend(float $duration): void
    {
        if ($this->outcome === null) {
            $this->link->extend($this->number, $duration);
        }
    }

    private function settle(Outcome $outcome, ?float $delay, string $reason): void
    {
        if ($this->outcome === null) {
            $this->outcome = $outcome;
            $this->link->settle($this->number, $outcome, $delay, $reason);
        }
    }
}
