<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

use KinesisSidecar\Outcome;

/**
 * Consecutive records of one batch that went to the app in one piece. While the app acknowledges them in their order,
 * they are counted. Before anything else happens to one of them, `split()` makes a delivery of each.
 *
 * @internal
 */
final class Run
{
    public readonly int $count;
    public readonly int $bytes;

    /** Number of the first record at the process of the app. */
    public int $first = 0;

    /** Records that are acknowledged, from the first one on. */
    public int $done = 0;

    private ?Port $port = null;

    /**
     * @param list<string> $lines
     * @param int          $place number of the first record in the order of arrival
     */
    public function __construct(
        public readonly array $lines,
        private readonly WireBatch $batch,
        private readonly int $place,
    ) {
        $this->count = count($lines);
        $this->bytes = (array_sum(array_map('strlen', $lines)) * 3) >> 2;
    }

    public function sendTo(Port $port, int $first): void
    {
        $this->port = $port;
        $this->first = $first;
    }

    public function batch(): WireBatch
    {
        return $this->batch;
    }

    /** Makes a delivery of each record, at the process of the app or acknowledged. */
    public function split(): void
    {
        $this->batch->forgetRun($this);
        $this->port?->forgetRun($this);
        foreach ($this->lines as $at => $line) {
            $delivery = new Delivery($line, $this->batch, $this->place + $at);
            $delivery->unconfirmed = true;
            $this->batch->deliveries[] = $delivery;
            if ($at < $this->done) {
                $delivery->open = false;
                $delivery->verdict = new Verdict(Outcome::Ack);
                $this->batch->acked[spl_object_id($delivery)] = $delivery;
            } elseif ($this->port !== null) {
                $this->port->sent[$this->first + $at] = $delivery;
            }
        }
    }
}
