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

    public function send(Delivery $delivery): void
    {
        $this->sent[$this->next++] = $delivery;
        $this->channel->write($delivery->line);
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
        $delivery = $this->sent[$number] ?? null;
        unset($this->sent[$number]);

        return $delivery;
    }

    /**
     * Removes and returns the records from `$number` on.
     *
     * @return list<Delivery>
     */
    public function takeFrom(int $number): array
    {
        $taken = [];
        foreach ($this->sent as $at => $delivery) {
            if ($at >= $number) {
                $taken[] = $delivery;
                unset($this->sent[$at]);
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
