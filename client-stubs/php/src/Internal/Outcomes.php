<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

use KinesisSidecar\Outcome;
use KinesisSidecar\SidecarError;

/**
 * The deliveries of a session, from their arrival to the settle requests about them.
 *
 * @internal
 */
final class Outcomes
{
    /** Reason of a refusal: the id is of a sidecar that was restarted, and its session has ended. */
    private const UNKNOWN = 'UNKNOWN';

    /** Settlements that were stale, and settlements that were refused one by one. */
    public int $stale = 0;
    public int $failed = 0;

    private readonly WaitingAcks $waitingAcks;
    private readonly Settler $settler;
    private readonly Scopes $scopes;
    private readonly Recalls $recalls;
    private readonly Redeliveries $redeliveries;
    private readonly Verdict $acknowledged;

    /** Counts the sessions. */
    private int $generation = 0;

    /** Counts the records of all sessions. */
    private int $places = 0;

    /** The batch whose records arrive, and how their lines name it. */
    private ?WireBatch $batch = null;
    private string $mark = '';

    /** null: no record was redelivered for a while */
    private ?Earlier $earlier = null;

    /** A lease was lost, and records of it may have no outcome: attempts of their redeliveries begin at 1. */
    private bool $leaseLost = false;

    private float $extendAt = INF;
    private int $ackDeadlineMs = 0;
    private int $maxInFlight = 0;
    private int $maxInFlightBytes = 0;

    /**
     * @param \Closure(array<string, mixed>): void $event  gets failures of settlements
     * @param \Closure(): list<Delivery>           $atApp  returns the deliveries that processes of the app have
     * @param \Closure(): void                     $recall asks them for the records that no handler has begun
     */
    public function __construct(
        private readonly Options $options,
        private readonly Dispatcher $dispatcher,
        private readonly \Closure $event,
        Endpoint $endpoint,
        private readonly \Closure $atApp,
        private readonly \Closure $recall,
    ) {
        $this->waitingAcks = new WaitingAcks($options->ackInterval);
        $this->scopes = new Scopes($options->ordering ?? 'shard');
        $this->recalls = new Recalls($this->scopes, $atApp);
        $this->settler = new Settler($endpoint, $options->settlePath(), $this->recalls);
        $this->redeliveries = new Redeliveries();
        $this->acknowledged = new Verdict(Outcome::Ack);
    }

    // --- The session ---

    public function hasSession(): bool
    {
        return $this->generation > 0;
    }

    /**
     * Begins a session. Its redeliveries of what the app has, or of what was not confirmed, are not handed out.
     *
     * @param array<string, mixed> $session
     * @param list<Delivery>       $atApp   deliveries that processes of the app have
     */
    public function begin(array $session, float $now, array $atApp): void
    {
        $this->generation++;
        $this->redeliveries->expect([...$atApp, ...$this->waitingAcks->reset(), ...$this->settler->reset()]);
        $this->recalls->reset();
        $this->earlier = null;
        $this->leaseLost = false;
        $this->ackDeadlineMs = $session['ack_deadline_ms'] ?? (int) round($this->options->ackDeadline * 1000);
        $this->maxInFlight = $session['max_in_flight'] ?? $this->options->maxInFlight;
        $this->maxInFlightBytes = $session['max_in_flight_bytes'] ?? $this->options->maxInFlightBytes;
        $this->extendAt = $now + $this->ackDeadlineMs / 3000;
    }

    /** Ends the connection of the stream. The sidecar accepts outcomes until it ends the session. */
    public function cut(): void
    {
        $this->waitingAcks->cut();
        $this->batch = null;
        $this->dropQueue();
        $this->flush();
    }

    /** Ends the lease of a shard: its records that no handler has begun are redelivered elsewhere. */
    public function loseShard(string $shard): void
    {
        $this->waitingAcks->loseShard($shard);
        $this->leaseLost = true;
        $this->earlier = null;
        $this->recalls->loseShard($shard, $this->places);
        $this->dropQueue();
    }

    /** Closes the connection, and forgets what was not sent. */
    public function close(): void
    {
        $this->settler->reset();
    }

    // --- Arrivals ---

    /**
     * Takes records of the stream.
     *
     * @param list<string> $lines
     *
     * @throws ConnectionLost if a line cannot be parsed
     */
    public function arrive(array $lines, float $now): void
    {
        $arrived = [];
        foreach ($lines as $line) {
            $end = strpos($line, '"', strlen(Line::RECORD));
            if ($end === false || $line[-1] !== '}') {
                throw new ConnectionLost('a line of the stream cannot be parsed');
            }
            if ($this->batch === null || substr_compare($line, $this->mark, $end, strlen($this->mark)) !== 0) {
                $this->takeLines($arrived);
                $arrived = [];
                $this->beginBatch($line, $now);
            }
            $arrived[] = $line;
        }
        $this->takeLines($arrived);
    }

    /** @param list<string> $lines of the batch that arrives */
    private function takeLines(array $lines): void
    {
        if ($lines === [] || $this->sendRun($lines)) {
            return;
        }
        $arrived = [];
        foreach ($lines as $line) {
            $delivery = new Delivery($line, $this->batch, $this->places++);
            $known = $this->earlierDelivery($delivery);
            if ($known !== null) {
                $this->adopt($known, $delivery);
            } else {
                if (!$this->recalls->isEmpty()) {
                    $this->handOut($arrived);
                    $arrived = [];
                    $this->release(...$this->recalls->redelivered($delivery));
                }
                $this->batch->add($delivery);
                $arrived[] = $delivery;
            }
            $this->earlier?->add($known ?? $delivery);
        }
        $this->handOut($arrived);
        if ($this->earlier?->isLarge($this->maxInFlight, $this->maxInFlightBytes)) {
            $this->earlier = null;
        }
    }

    /** Returns the delivery whose outcome settles this one; null: this one is handed out. */
    private function earlierDelivery(Delivery $delivery): ?Delivery
    {
        $isAgain = !Line::isFirst($delivery->line);
        if ($isAgain || $this->leaseLost) {
            $this->earlier ??= $this->collectEarlier();
        }
        if ($isAgain) {
            $this->replace($delivery);
        }

        return $this->redeliveries->take($delivery)
            ?? ($isAgain || $this->leaseLost ? $this->earlier->unconfirmed($delivery) : null);
    }

    private function collectEarlier(): Earlier
    {
        $open = $this->waitingAcks->deliveries();

        return new Earlier($this->scopes, [...$open, ...($this->atApp)(), ...$this->settler->unanswered()]);
    }

    /**
     * Drops records that no handler has begun, from the position of a redelivery on. The sidecar delivers a scope in
     * order: it took them back, and redelivers them after this one.
     */
    private function replace(Delivery $redelivery): void
    {
        $isAtApp = false;
        foreach ($this->earlier->takeBack($redelivery) as $delivery) {
            if ($delivery->open && !$delivery->unconfirmed) {
                $this->drop($delivery);
            } elseif ($delivery->open) {
                $delivery->replaced = $isAtApp = true;
            }
        }
        $isAtApp && ($this->recall)();
    }

    /**
     * Sends records as one run, if nothing is to be known about each of them.
     *
     * @param list<string> $lines
     */
    private function sendRun(array $lines): bool
    {
        if (
            !$this->batch->current
            || $this->leaseLost
            || !$this->redeliveries->isEmpty()
            || !$this->recalls->isEmpty()
            || $this->earlier !== null
            || count(array_filter($lines, Line::isFirst(...))) < count($lines)
        ) {
            return false;
        }
        $run = new Run($lines, $this->batch, $this->places);
        if (!$this->dispatcher->send($run)) {
            return false;
        }
        $this->places += $run->count;
        $this->batch->addRun($run);

        return true;
    }

    private function beginBatch(string $line, float $now): void
    {
        $batchId = Line::raw($line, 'batch_id');
        $this->mark = '","batch_id":"' . $batchId . '"';
        $shard = Line::raw($line, 'shard_id');
        $this->batch = new WireBatch($batchId, $shard, $this->generation, $now, Line::isRedriven($line));
        $this->waitingAcks->begin($this->batch);
        $this->redeliveries->begin(new Delivery($line, $this->batch, $this->places));
    }

    public function passBarrier(string $barrier): void
    {
        $this->release(...$this->recalls->barrier($barrier, $this->places));
    }

    /**
     * Takes back deliveries that no handler has begun, and hands out again those that it may.
     *
     * @param list<Delivery> $deliveries
     */
    public function takeBack(array $deliveries): void
    {
        foreach ($deliveries as $delivery) {
            $delivery->unconfirmed = false;
        }
        $this->dispatcher->putBack($this->keep($deliveries));
    }

    /** Lets the outcome of a delivery, which may be there already, settle the redelivery. */
    private function adopt(Delivery $delivery, Delivery $redelivery): void
    {
        if ($delivery->batch->generation === $this->generation) {
            $this->waitingAcks->leave($delivery);
            $this->settler->withdraw($delivery);
        }
        $delivery->adopt($redelivery);
        $delivery->batch->add($delivery);
        if ($delivery->verdict !== null) {
            $this->settle($delivery, $delivery->verdict);
        } else {
            // Records that the app has not begun are sent again, in the order of their redeliveries.
            ($this->recall)();
        }
    }

    /** @param list<Delivery> $deliveries */
    private function handOut(array $deliveries): void
    {
        $this->dispatcher->offer(...$this->keep($deliveries));
    }

    /**
     * Returns the deliveries that may be handed out.
     *
     * @param list<Delivery> $deliveries
     *
     * @return list<Delivery>
     */
    private function keep(array $deliveries): array
    {
        $kept = [];
        foreach ($deliveries as $delivery) {
            if (!$delivery->batch->current || $delivery->replaced) {
                $this->drop($delivery);
            } elseif ($delivery->open && !$this->recalls->hold($delivery)) {
                $kept[] = $delivery;
            }
        }

        return $kept;
    }

    /** Drops queued deliveries that no handler may begin any more. */
    private function dropQueue(): void
    {
        $isLost = static fn (Delivery $delivery): bool => !$delivery->batch->current;
        array_map($this->drop(...), $this->dispatcher->withdraw($isLost));
    }

    private function drop(Delivery $delivery): void
    {
        $this->redeliveries->forget($delivery);
        $this->waitingAcks->remove($delivery);
    }

    // --- Outcomes ---

    /** @param list<Delivery> $deliveries */
    public function acknowledge(array $deliveries, float $now): void
    {
        foreach ($deliveries as $delivery) {
            if ($this->conclude($delivery, $this->acknowledged)) {
                $this->waitingAcks->ack($delivery, $now);
            }
        }
    }

    /** Acknowledges the next `$count` records of a run. A run does not outlive its session: see `Run::split()`. */
    public function acknowledgeRun(Run $run, int $count, float $now): void
    {
        $this->waitingAcks->ackRun($run, $count, $now);
    }

    public function settle(Delivery $delivery, Verdict $verdict): void
    {
        if ($verdict->outcome === Outcome::Ack) {
            $this->acknowledge([$delivery], Clock::now());

            return;
        }
        if (!$this->conclude($delivery, $verdict)) {
            return;
        }
        $this->waitingAcks->remove($delivery);
        $retry = $verdict->outcome === Outcome::Retry;
        if ($retry && $this->recalls->begin($delivery)) {
            array_map($this->recalls->hold(...), $this->dispatcher->withdraw($this->recalls->isHeld(...)));
        }
        $ackId = $delivery->ackId();
        $this->flush();
        $this->settler->add([new Settlement($ackId, $verdict->json($ackId), [$delivery], $retry ? $delivery : null)]);
    }

    /** Ends a delivery whose acknowledgement is sent apart. Returns its ack id; null if its session has ended. */
    public function part(Delivery $delivery): ?string
    {
        if (!$this->conclude($delivery, $this->acknowledged)) {
            return null;
        }
        $this->waitingAcks->remove($delivery);
        $this->flush();

        return $delivery->ackId();
    }

    /** Moves the ack deadline of one record. */
    public function extendOne(Delivery $delivery, int $delayMs): void
    {
        if ($delivery->batch->generation === $this->generation) {
            $this->settler->extend([Settlement::ofDelivery($delivery, 'extend', ',"delay_ms":' . $delayMs)]);
        }
    }

    /** Notes the outcome. Returns false if the session of the delivery has ended. */
    private function conclude(Delivery $delivery, Verdict $verdict): bool
    {
        $delivery->verdict = $verdict;
        if ($delivery->batch->generation === $this->generation) {
            return true;
        }
        $this->redeliveries->expects($delivery) || $this->stale++;

        return false;
    }

    /**
     * @param list<Delivery> $dropped  are redelivered
     * @param list<Delivery> $released are handed out
     */
    private function release(array $dropped, array $released): void
    {
        foreach ($dropped as $delivery) {
            $this->waitingAcks->remove($delivery);
        }
        $this->handOut($released);
    }

    // --- Requests ---

    /** Sends all acknowledgements that wait. */
    public function flush(): void
    {
        $this->settler->add($this->waitingAcks->take());
    }

    /** All outcomes are sent and answered. */
    public function areSent(): bool
    {
        return $this->settler->isIdle();
    }

    public function connection(): ?HttpConnection
    {
        return $this->settler->connection();
    }

    /** Returns when `turn()` has something to do at the latest. */
    public function due(): float
    {
        return min($this->extendAt, $this->settler->due(), $this->waitingAcks->due() ?? INF);
    }

    /**
     * Sends what is due.
     *
     * @throws SidecarError for refusals
     */
    public function turn(float $now): void
    {
        $this->extend($now);
        if ($now >= ($this->waitingAcks->due() ?? INF)) {
            $this->settler->add($this->waitingAcks->take($now));
        }
        if ($this->waitingAcks->isFull($this->maxInFlight, $this->maxInFlightBytes)) {
            $this->settler->add($this->waitingAcks->take(-INF) ?: $this->waitingAcks->take());
        }
        $this->progress($now, false);
    }

    /**
     * Reads answers.
     *
     * @throws SidecarError for refusals
     */
    public function receive(float $now): void
    {
        $this->progress($now, true);
    }

    private function extend(float $now): void
    {
        if ($now < $this->extendAt) {
            return;
        }
        $this->extendAt = $now + $this->ackDeadlineMs / 3000;
        $this->earlier = null;
        $this->leaseLost = $this->waitingAcks->hasLost();
        if (!$this->settler->hasExtensions()) {
            $notBefore = $now - $this->options->maxProcessing;
            $this->settler->extend($this->waitingAcks->extensions($this->ackDeadlineMs, $notBefore));
        }
    }

    private function progress(float $now, bool $readable): void
    {
        $result = $this->settler->progress($now, $readable);
        if ($result === null) {
            return;
        }
        $failed = [];
        foreach ($result->failed as $failure) {
            $failed[$failure['ack_id']] = $failure['reason'] ?? '';
            $this->failed++;
            ($this->event)(['type' => 'settle_failed'] + $failure);
        }
        // The next session ends the holds of the retries that are not in it.
        $accepted = [];
        foreach ($result->items as $item) {
            if ($result->stale) {
                $this->stale += $item->count();
            } elseif ($item->retried !== null && ($failed[$item->id] ?? '') !== self::UNKNOWN) {
                $accepted[spl_object_id($item->retried)] = !isset($failed[$item->id]);
            }
            $item->release();
        }
        $this->release(...$this->recalls->answered($accepted));
    }
}
