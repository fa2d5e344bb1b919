<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

/**
 * One record of the stream, as the agent has it. A redelivery may take the position of the first delivery.
 *
 * @internal
 */
final class Delivery
{
    /** The record has no outcome, and was not dropped. */
    public bool $open = true;

    /** The outcome, for a redelivery of the record. */
    public ?Verdict $verdict = null;

    /** The name of the scope; null: `Scopes` has not computed it. */
    public ?string $scope = null;

    /** When the first delivery that the app has arrived; null: when the batch did. */
    public ?float $since = null;

    /** The app has the record, or its outcome has no answer. See also `WireBatch::$confirmed`. */
    public bool $unconfirmed = false;

    /** The item with its outcome, which was not answered. */
    public ?Settlement $settlement = null;

    /** The sidecar took the record back: it is not handed out unless this delivery becomes its redelivery. */
    public bool $replaced = false;

    private ?string $identity = null;

    /** @var array{int, string, int}|null sorts like the position; null: not read */
    private ?array $position = null;

    /** @param int $place number of the record in the order of arrival */
    public function __construct(
        public string $line,
        public WireBatch $batch,
        public int $place,
    ) {
    }

    /** Takes over ack id and batch of a redelivery: the outcome of this delivery settles that one. */
    public function adopt(self $redelivery): void
    {
        $this->since ??= $this->batch->receivedAt;
        $this->line = $redelivery->line;
        $this->batch = $redelivery->batch;
        $this->place = $redelivery->place;
        $this->open = $this->unconfirmed = true;
        $this->replaced = false;
    }

    /** Returns what names the record in every delivery: see `Line::identity()`. */
    public function identity(): string
    {
        return $this->identity ??= Line::identity($this->line);
    }

    public function ackId(): string
    {
        $begin = strlen(Line::RECORD);

        return substr($this->line, $begin, strpos($this->line, '"', $begin) - $begin);
    }

    /** The record is after the other one in their shard. */
    public function isAfter(self $other): bool
    {
        return $this->position() > $other->position();
    }

    public function bytes(): int
    {
        return (strlen($this->line) * 3) >> 2;
    }

    /**
     * Returns deliveries in the order of their arrival.
     *
     * @param list<self> $deliveries
     *
     * @return list<self>
     */
    public static function sort(array $deliveries): array
    {
        usort($deliveries, static fn (self $one, self $other): int => $one->place <=> $other->place);

        return $deliveries;
    }

    /** @return array{int, string, int} numbers of the same length sort like text */
    private function position(): array
    {
        if ($this->position === null) {
            $number = Line::raw($this->line, 'sequence_number');
            $this->position = [strlen($number), "n$number", (int) Line::raw($this->line, 'sub_sequence_number')];
        }

        return $this->position;
    }
}
