<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

/**
 * A process of the app that handles records, seen from the agent.
 *
 * @internal
 */
final class Port
{
    /** Records sent ahead to a process with quick handlers; a slow one has only the record that it handles. */
    private const WINDOW_MAX = 32;

    /** A process that reports more rarely has slow handlers. */
    private const SLOW_SECONDS = 0.1;

    /** @var array<int, Delivery> sent and without an outcome, by number */
    public array $sent = [];

    /** @var array<int, Run> sent, and not acknowledged as a whole, by object id */
    private array $runs = [];

    /** The process was asked to give records back, and has not answered: it gets none. */
    public bool $returning = false;

    private int $next = 0;
    private int $window = 1;
    private float $reportedAt = 0.0;

    /** @param bool $limited the process shares the records with others */
    public function __construct(public readonly Channel $channel, private readonly bool $limited)
    {
    }

    /** Returns how many records it may get now. */
    public function room(): int
    {
        if ($this->returning) {
            return 0;
        }

        return $this->limited ? $this->window - count($this->sent) : PHP_INT_MAX;
    }

    public function send(Delivery ...$deliveries): void
    {
        $lines = [];
        foreach ($deliveries as $delivery) {
            $delivery->unconfirmed = true;
            $this->sent[$this->next++] = $delivery;
            $lines[] = $delivery->line;
        }
        $this->channel->write(...$lines);
    }

    public function sendRun(Run $run): void
    {
        $run->sendTo($this, $this->next);
        $this->runs[spl_object_id($run)] = $run;
        $this->next += $run->count;
        $this->channel->write(...$run->lines);
    }

    public function forgetRun(Run $run): void
    {
        unset($this->runs[spl_object_id($run)]);
    }

    /**
     * Counts acknowledgements of records from `$first` to `$last` that are in runs.
     *
     * @return list<array{Run, int}> runs with the number of their records
     */
    public function acknowledgeRuns(int $first, int $last): array
    {
        $acknowledged = [];
        foreach ($this->runs as $run) {
            $next = $run->first + $run->done;
            if ($next > $last) {
                break;
            }
            if ($next < $first) {
                $run->split();
                continue;
            }
            $count = min($last + 1 - $next, $run->count - $run->done);
            $run->done += $count;
            $acknowledged[] = [$run, $count];
            $run->done < $run->count || $this->forgetRun($run);
        }

        return $acknowledged;
    }

    /**
     * Makes a delivery of each record.
     *
     * @return array<int, Delivery> sent and without an outcome, by number
     */
    public function split(): array
    {
        foreach ($this->runs as $run) {
            $run->split();
        }

        return $this->sent;
    }

    public function isEmpty(): bool
    {
        return $this->sent === [] && $this->runs === [];
    }

    /** Asks for all records that are not with a handler. */
    public function reset(): void
    {
        if (!$this->returning) {
            $this->returning = true;
            $this->channel->tell(['reset']);
        }
    }

    /** Removes and returns a record that has an outcome. */
    public function take(int $number): ?Delivery
    {
        $delivery = $this->split()[$number] ?? null;
        unset($this->sent[$number]);

        return $delivery;
    }

    /**
     * Removes and returns the records from `$first` to `$last`.
     *
     * @return list<Delivery>
     */
    public function takeRange(int $first, int $last): array
    {
        $taken = [];
        if ($this->sent === []) {
            return $taken;
        }
        for ($number = $first, $last = min($last, $this->next - 1); $number <= $last; $number++) {
            if (isset($this->sent[$number])) {
                $taken[] = $this->sent[$number];
                unset($this->sent[$number]);
            }
        }

        return $taken;
    }

    /** Adapts the window after a report about `$records` records. */
    public function reported(int $records, float $now): void
    {
        if ($now - $this->reportedAt > self::SLOW_SECONDS) {
            $this->window = 1;
        } elseif ($records >= $this->window) {
            $this->window = min(2 * $this->window, self::WINDOW_MAX);
        }
        $this->reportedAt = $now;
    }
}
