<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

use KinesisSidecar\Outcome;
use KinesisSidecar\SessionTakenOver;
use KinesisSidecar\SidecarError;

/**
 * Talks to the sidecar for one consumer, whatever the handlers of the app do: reads the stream, sends outcomes, extends
 * ack deadlines, connects again.
 *
 * @internal
 */
final class Agent
{
    /** Limit of waiting for the checkpoint: the sidecar answers after 10 s. */
    private const PERSISTED_SECONDS = 15.0;

    private const RETRY_AFTER_MAX_SECONDS = 30.0;

    public readonly Outcomes $outcomes;

    private readonly Endpoint $endpoint;
    private readonly Backoff $backoff;

    /** @var array<int, Port> by resource id of the socket */
    private array $ports = [];

    /** @var array<int, PersistedAck> */
    private array $persisting = [];

    private ?Stream $stream = null;
    /** No further records are handed out; no further stream is opened. */
    private bool $stopping = false;
    private bool $closing = false;
    private float $connectAt = 0.0;

    /** @param \Closure(string): void $report gets each event as a JSON object */
    public function __construct(
        private readonly Options $options,
        private readonly Dispatcher $dispatcher,
        private readonly \Closure $report,
    ) {
        $this->endpoint = new Endpoint($options->url, $options->tokenFile);
        $this->outcomes = new Outcomes(
            $options,
            $dispatcher,
            $this->event(...),
            $this->endpoint,
            $this->atApp(...),
            $this->recallSent(...)
        );
        $this->backoff = new Backoff();
    }

    public function attach(Port $port): void
    {
        $this->ports[(int) $port->channel->socket] = $port;
        $this->dispatcher->attach($port);
    }

    /** Removes a process that has ended. The record that it handled is retried with `$reason`. */
    public function detach(Port $port, string $reason): void
    {
        unset($this->ports[(int) $port->channel->socket]);
        $this->dispatcher->detach($port);
        $number = array_key_first($port->split());
        if ($number !== null) {
            $handled = $port->take($number);
            $this->dispatcher->left($handled);
            $this->outcomes->settle($handled, new Verdict(Outcome::Retry, null, $reason));
            $this->returned($port, $number);
        }
        $port->channel->close();
    }

    /** Hands out no further records. */
    public function stop(): void
    {
        $this->stopping = true;
        foreach ($this->ports as $port) {
            $port->reset();
        }
    }

    /**
     * Does what is due, and waits up to `$seconds` for bytes.
     *
     * @throws SidecarError     for refusals
     * @throws SessionTakenOver
     */
    public function turn(float $seconds): void
    {
        $now = Clock::now();
        $this->connect($now);
        $this->pump();
        $this->outcomes->turn($now);
        $this->beginPersisting($now);
        $this->select($this->limit($now + $seconds) - Clock::now());
    }

    /**
     * Sends what waits, for `$seconds` at most, and ends the session. The processes of the app are not served any more.
     *
     * @throws SidecarError for refusals
     */
    public function finish(float $seconds, bool $endSession): void
    {
        $this->stopping = $this->closing = true;
        $this->ports = [];
        $until = Clock::now() + $seconds;
        $this->outcomes->flush();
        try {
            while (!$this->outcomes->areSent() && Clock::now() < $until) {
                $this->turn($until - Clock::now());
            }
        } catch (SessionTakenOver) {
            $endSession = false;
        }
        if ($endSession && $this->outcomes->hasSession()) {
            $this->endSession($until);
        }
        $this->abandon();
    }

    /** Closes all sockets. */
    public function abandon(): void
    {
        $this->stream?->close();
        $this->outcomes->close();
        foreach ($this->persisting as $ack) {
            $ack->close();
        }
        foreach ($this->ports as $port) {
            $port->channel->close();
        }
        $this->stream = null;
        $this->persisting = $this->ports = [];
    }

    private function pump(): void
    {
        $this->stopping || $this->dispatcher->pump();
        foreach ($this->ports as $port) {
            $port->channel->flush();
        }
    }

    // --- The stream ---

    private function connect(float $now): void
    {
        if ($this->stream !== null && $now >= $this->stream->deadline()) {
            $this->lose(new ConnectionLost('three heartbeats were missed'), $now);
        }
        if ($this->stream !== null || $this->closing || $now < $this->connectAt) {
            return;
        }
        try {
            $this->stream = new Stream($this->endpoint, $this->options->streamPath(), $now);
        } catch (ConnectionLost $lost) {
            $this->lose($lost, $now);
        }
    }

    private function lose(ConnectionLost $lost, float $now): void
    {
        $this->stream?->close();
        $this->stream = null;
        $this->outcomes->cut();
        $pause = $this->backoff->pause(min($lost->retryAfter, self::RETRY_AFTER_MAX_SECONDS));
        $this->connectAt = $now + $pause;
        $this->recallSent();
        $this->event([
            'type' => 'disconnected',
            'reason' => $lost->getMessage(),
            'retry_in_ms' => (int) round($pause * 1000),
        ]);
    }

    private function readStream(float $now): void
    {
        try {
            $this->receive($this->stream->read($now), $now);
        } catch (ConnectionLost $lost) {
            $this->lose($lost, $now);
        }
    }

    /**
     * @param list<string> $lines
     *
     * @throws ConnectionLost for a line that cannot be parsed
     */
    private function receive(array $lines, float $now): void
    {
        $records = [];
        foreach ($lines as $line) {
            if (!str_starts_with($line, Line::RECORD)) {
                $this->outcomes->arrive($records, $now);
                $records = [];
                $line = $this->parse($line, $now);
                if ($line === null) {
                    continue;
                }
            }
            $records[] = $line;
        }
        $this->outcomes->arrive($records, $now);
    }

    /**
     * Handles a control event. Returns a record whose members have another order as a line in the usual order.
     *
     * @throws ConnectionLost if the line cannot be parsed
     */
    private function parse(string $line, float $now): ?string
    {
        if (trim($line) === '') {
            return null;
        }
        $event = json_decode($line, true);
        is_array($event) || throw new ConnectionLost('a line of the stream cannot be parsed');
        $type = $event['type'] ?? 'record';
        if ($type === 'record') {
            return Line::of($event);
        }
        match ($type) {
            'session' => $this->opened($event, $now),
            'barrier' => $this->outcomes->passBarrier((string) ($event['barrier'] ?? '')),
            'lease_lost' => $this->loseShard((string) ($event['shard_id'] ?? '')),
            default => null,
        };
        ($this->report)($line);
        if ($type === 'ended' && ($event['reason'] ?? '') === 'taken_over') {
            throw new SessionTakenOver($this->options->clientId);
        }

        return null;
    }

    /** @param array<string, mixed> $session */
    private function opened(array $session, float $now): void
    {
        $this->backoff->reset();
        $this->stream->expectHeartbeats(($session['heartbeat_ms'] ?? 10000) / 1000);
        $atApp = $this->atApp();
        foreach ($this->persisting as $ack) {
            $ack->answer(false);
        }
        $this->persisting = [];
        $this->outcomes->begin($session, $now, $atApp);
        $this->recallSent();
    }

    private function loseShard(string $shard): void
    {
        $this->outcomes->loseShard($shard);
        $this->recallSent();
    }

    /** @return list<Delivery> deliveries that processes of the app have */
    private function atApp(): array
    {
        $atApp = array_column($this->persisting, 'delivery');
        foreach ($this->ports as $port) {
            array_push($atApp, ...$port->split());
        }

        return $atApp;
    }

    /** Asks the processes of the app for the records that no handler has begun. */
    private function recallSent(): void
    {
        foreach ($this->ports as $port) {
            $port->isEmpty() || $port->reset();
        }
    }

    // --- Acknowledgements that wait for the checkpoint ---

    private function persist(Port $port, Delivery $delivery, int $question): void
    {
        $ackId = $this->outcomes->part($delivery);
        $ack = new PersistedAck($port->channel, $question, $delivery, $ackId ?? '');
        if ($ackId === null) {
            $ack->answer(false);
        } else {
            $this->persisting[] = $ack;
        }
    }

    /** Sends them after all earlier acknowledgements. */
    private function beginPersisting(float $now): void
    {
        foreach ($this->persisting as $at => $ack) {
            if ($now >= $ack->deadline()) {
                $ack->answer(false);
                unset($this->persisting[$at]);
            } elseif ($this->outcomes->areSent()) {
                $ack->begin($this->endpoint, $this->options->settlePath(), $now + self::PERSISTED_SECONDS);
            }
        }
    }

    // --- The processes of the app ---

    private function readPort(Port $port): void
    {
        $now = Clock::now();
        foreach ($port->channel->read() ?? throw new PortClosed($port) as $line) {
            $this->message($port, json_decode($line, true), $now);
        }
    }

    /** @param list<mixed> $message */
    private function message(Port $port, array $message, float $now): void
    {
        [$type, $number] = $message + [1 => 0];
        if ($type === 'ack') {
            $this->acknowledgeRange($port, $number, $message[2], $now);

            return;
        }
        if ($type === 'returned') {
            $port->returning = false;
            $this->returned($port, $number);

            return;
        }
        if ($type === 'close') {
            throw new PortClosed($port, true);
        }
        $delivery = $type === 'extend' ? $port->split()[$number] ?? null : $port->take($number);
        if ($delivery === null) {
            return;
        }
        if ($type === 'extend') {
            $this->outcomes->extendOne($delivery, $message[2]);

            return;
        }
        $port->reported(1, $now);
        $this->dispatcher->left($delivery);
        if ($type === 'persist') {
            $this->persist($port, $delivery, $message[2]);

            return;
        }
        $verdict = new Verdict(Outcome::from($message[2]), $message[3], $message[4]);
        $this->outcomes->settle($delivery, $verdict);
        if ($verdict->outcome === Outcome::Retry) {
            $this->returned($port, $message[5]);
        }
    }

    private function acknowledgeRange(Port $port, int $first, int $last, float $now): void
    {
        foreach ($port->acknowledgeRuns($first, $last) as [$run, $count]) {
            $this->outcomes->acknowledgeRun($run, $count, $now);
        }
        $deliveries = $port->takeRange($first, $last);
        $this->dispatcher->left(...$deliveries);
        $this->outcomes->acknowledge($deliveries, $now);
        $port->reported($last - $first + 1, $now);
    }

    /** The process gave back the records from `$number` on. */
    private function returned(Port $port, int $number): void
    {
        $port->split();
        $deliveries = $port->takeRange($number, PHP_INT_MAX);
        $this->dispatcher->left(...$deliveries);
        $this->outcomes->takeBack($deliveries);
        $port->channel->tell(['resume']);
    }

    // --- The loop ---

    /** Returns the time of the next thing to do, `$limit` at the latest. */
    private function limit(float $limit): float
    {
        $due = [$limit, $this->outcomes->due()];
        $due[] = $this->stream?->deadline() ?? ($this->closing ? INF : $this->connectAt);

        return min($due);
    }

    private function select(float $seconds): void
    {
        $read = $write = [];
        $this->watch($this->stream?->connection, $read, $write);
        $this->watch($this->outcomes->connection(), $read, $write);
        foreach ($this->persisting as $ack) {
            $this->watch($ack->connection(), $read, $write);
        }
        foreach ($this->ports as $id => $port) {
            $read[$id] = $port->channel->socket;
            if ($port->channel->hasOutput()) {
                $write[$id] = $port->channel->socket;
            }
        }
        if (self::wait($read, $write, $seconds)) {
            $this->transfer($read, $write);
        }
    }

    /**
     * @param array<int, resource> $read
     * @param array<int, resource> $write
     */
    private function watch(?HttpConnection $connection, array &$read, array &$write): void
    {
        if ($connection !== null) {
            $read[(int) $connection->socket] = $connection->socket;
            if ($connection->hasOutput()) {
                $write[(int) $connection->socket] = $connection->socket;
            }
        }
    }

    /**
     * @param array<int, resource> $read
     * @param array<int, resource> $write
     */
    private static function wait(array &$read, array &$write, float $seconds): bool
    {
        $microseconds = (int) max($seconds * 1e6, 0);
        if ($read === [] && $write === []) {
            usleep($microseconds);

            return false;
        }
        $except = null;
        // A signal ends the wait with a warning; the caller comes again.
        $ready = @stream_select($read, $write, $except, intdiv($microseconds, 1000000), $microseconds % 1000000);

        return $ready !== false && $ready > 0;
    }

    /**
     * @param array<int, resource> $read
     * @param array<int, resource> $write
     */
    private function transfer(array $read, array $write): void
    {
        $now = Clock::now();
        foreach (array_intersect_key($this->ports, $write) as $port) {
            $port->channel->flush();
        }
        foreach (array_intersect_key($this->ports, $read) as $port) {
            $this->readPort($port);
        }
        foreach ($this->persisting as $at => $ack) {
            $connection = $ack->connection();
            if ($connection !== null && isset($read[(int) $connection->socket]) && $ack->receive()) {
                unset($this->persisting[$at]);
            }
        }
        $settling = $this->outcomes->connection();
        if ($settling !== null && isset($read[(int) $settling->socket])) {
            $this->outcomes->receive($now);
        }
        $this->stream?->connection->flush();
        if ($this->stream !== null && isset($read[(int) $this->stream->connection->socket])) {
            $this->readStream($now);
        }
    }

    private function endSession(float $until): void
    {
        try {
            $connection = new HttpConnection($this->endpoint);
            $connection->send('DELETE', $this->options->sessionPath());
            while (!$connection->complete && Clock::now() < $until) {
                $read = [$connection->socket];
                $write = [];
                self::wait($read, $write, $until - Clock::now()) && $connection->receive();
            }
            $connection->close();
        } catch (ConnectionLost) {
            // A sidecar that is away has no session to end.
        }
    }

    /** @param array<string, mixed> $event */
    private function event(array $event): void
    {
        ($this->report)(json_encode($event, JSON_INVALID_UTF8_SUBSTITUTE | JSON_THROW_ON_ERROR));
    }
}
