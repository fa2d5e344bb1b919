<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

use KinesisSidecar\Outcome;
use KinesisSidecar\Record;
use KinesisSidecar\SessionTakenOver;
use KinesisSidecar\SidecarError;

/**
 * The app's side of the channel to an agent.
 *
 * @internal
 */
final class AgentLink implements Link
{
    /** Messages to and from the agent travel at most this often while handlers are quick. */
    private const GATHER_NANOSECONDS = 1000000;

    /** A signal between the check of `$stopping` and the wait is noticed after this time. */
    private const WAIT_SECONDS = 0.25;

    private const CLOSE_SECONDS = 15.0;

    private ?Channel $channel = null;

    /** @var list<string> records that were not handed out, from `$cursor` on */
    private array $lines = [];
    private int $cursor = 0;

    /** Number of the next record, as the app and as this agent count them. */
    private int $next = 0;
    private int $base = 0;

    /** Acknowledgements that were not written to the channel. */
    private int $ackFirst = 0;
    private int $ackLast = -1;
    private int $sentAt = 0;

    /** The channel is to be read before the next record, for the agent may want records back. */
    private bool $polling = false;

    /** How many times the agent has to say `resume` before its records are new ones. */
    private int $discarding = 0;

    private bool $stopping = false;
    private bool $ready = false;

    /** @var array<int, bool> answers about checkpoints, by question */
    private array $persisted = [];
    private int $questions = 0;

    private readonly Backoff $backoff;

    /**
     * @param AgentSpawner|null              $spawner  starts agents; null: the agent is the parent process
     * @param \Closure(string): void         $event    gets each event as a JSON object
     * @param \Closure(int, int): void       $counted  gets numbers of further stale and failed settlements
     */
    public function __construct(
        private readonly ?AgentSpawner $spawner,
        private readonly \Closure $event,
        private readonly \Closure $counted,
        private readonly string $clientId,
        ?Channel $channel = null,
    ) {
        $this->backoff = new Backoff();
        $this->channel = $channel ?? $spawner?->start();
    }

    public function await(int $count, ?float $seconds): int
    {
        if ($this->polling) {
            $this->poll();
        }
        $queued = count($this->lines) - $this->cursor;
        if ($this->stopping || $queued >= $count) {
            return $this->stopping ? 0 : $queued;
        }
        $until = $seconds === null ? INF : Clock::now() + $seconds;
        do {
            $this->exchange($until);
            $queued = count($this->lines) - $this->cursor;
        } while (!$this->stopping && $queued < $count && Clock::now() < $until);

        return $this->stopping ? 0 : $queued;
    }

    public function take(): Record
    {
        return new Record($this, $this->next++, $this->lines[$this->cursor++]);
    }

    public function ack(int $number): void
    {
        if ($number !== $this->ackLast + 1) {
            $this->gather();
            $this->ackFirst = $number;
        }
        $this->ackLast = $number;
        $now = hrtime(true);
        if ($now - $this->sentAt > self::GATHER_NANOSECONDS) {
            $this->sentAt = $now;
            $this->polling = true;
            $this->send();
        }
    }

    public function settle(int $number, Outcome $outcome, ?float $delay, string $reason): void
    {
        $delayMs = $delay === null ? null : (int) round($delay * 1000);
        if ($outcome === Outcome::Retry) {
            // The agent keeps back what the retry takes back.
            $this->tell($number, 'settle', [$outcome->value, $delayMs, $reason, $this->discard() - $this->base]);
        } else {
            $this->tell($number, 'settle', [$outcome->value, $delayMs, $reason]);
        }
        $this->send();
    }

    public function persist(int $number): bool
    {
        $question = ++$this->questions;
        if (!$this->tell($number, 'persist', [$question])) {
            return false;
        }
        $channel = $this->channel;
        while (!isset($this->persisted[$question]) && $this->channel === $channel) {
            $this->exchange(INF);
        }
        $persisted = $this->persisted[$question] ?? false;
        unset($this->persisted[$question]);

        return $persisted;
    }

    public function extend(int $number, float $seconds): void
    {
        $this->tell($number, 'extend', [(int) round($seconds * 1000)]);
        $this->send();
    }

    public function giveBack(int $number): void
    {
        $this->gather();
        if ($number >= $this->base && $this->channel !== null) {
            $this->channel->tell(['returned', $number - $this->base]);
            $this->discard();
            $this->send();
        }
    }

    public function stop(): void
    {
        $this->stopping = true;
    }

    public function close(): void
    {
        if ($this->channel === null) {
            return;
        }
        $this->stopping = true;
        $this->gather();
        $this->channel->tell($this->spawner === null ? ['returned', $this->next - $this->base] : ['close']);
        $this->send();
        try {
            $until = Clock::now() + self::CLOSE_SECONDS;
            while ($this->isClosing() && Clock::now() < $until) {
                $this->exchange($until);
            }
        } finally {
            $this->channel?->close();
            $this->channel = null;
            $this->spawner?->end();
        }
    }

    /** An agent closes the channel when the session has ended; a parent process only reads. */
    private function isClosing(): bool
    {
        return $this->channel !== null && ($this->spawner !== null || $this->channel->hasOutput());
    }

    // --- The channel ---

    /**
     * Writes a message about a record. Returns false if the agent of the record is gone, and the settlement stale.
     *
     * @param list<mixed> $more
     */
    private function tell(int $number, string $type, array $more): bool
    {
        $this->gather();
        if ($number < $this->base || $this->channel === null) {
            ($this->counted)(1, 0);

            return false;
        }
        $this->channel->tell([$type, $number - $this->base, ...$more]);

        return true;
    }

    /** Writes the acknowledgements that wait. */
    private function gather(): void
    {
        $first = $this->ackFirst;
        $last = $this->ackLast;
        $this->ackFirst = $last + 1;
        if ($first <= $last) {
            $this->tell(max($first, $this->base), 'ack', [$last - $this->base]);
        }
    }

    private function send(): void
    {
        $this->spawner?->checkOwner();
        $this->gather();
        $this->channel?->flush();
    }

    /** Gives back what was not handed out. Returns the number of the first of these records. */
    private function discard(): int
    {
        $first = $this->next;
        $this->next += count($this->lines) - $this->cursor;
        $this->lines = [];
        $this->cursor = 0;
        $this->discarding++;

        return $first;
    }

    /** Sends what waits, and waits for bytes. */
    private function exchange(float $until): void
    {
        $this->send();
        if ($this->channel === null) {
            $this->stopping = true;

            return;
        }
        $read = [$this->channel->socket];
        $write = $this->channel->hasOutput() ? $read : null;
        $none = null;
        $seconds = max(0.0, min(self::WAIT_SECONDS, $until - Clock::now()));
        // A signal ends the wait with a warning.
        $ready = @stream_select($read, $write, $none, 0, (int) ($seconds * 1e6));
        if ($ready !== false && $ready > 0 && $read !== []) {
            $this->receive($this->channel->read());
        }
    }

    /** Reads what is there. */
    private function poll(): void
    {
        $this->polling = false;
        do {
            $lines = $this->channel?->read();
            $lines === [] || $this->receive($lines);
        } while ($lines !== null && $lines !== []);
    }

    /** @param list<string>|null $lines */
    private function receive(?array $lines): void
    {
        if ($lines === null) {
            $this->lost();

            return;
        }
        if ($this->cursor > 0) {
            $this->lines = array_slice($this->lines, $this->cursor);
            $this->cursor = 0;
        }
        foreach ($lines as $line) {
            if (str_starts_with($line, Line::RECORD)) {
                if ($this->discarding > 0) {
                    $this->next++;
                } else {
                    $this->lines[] = $line;
                }
            } elseif ($line[0] === '[') {
                $this->message(json_decode($line, true, 8, JSON_THROW_ON_ERROR));
            } else {
                ($this->event)($line);
            }
        }
    }

    /** @param list<mixed> $message */
    private function message(array $message): void
    {
        switch ($message[0]) {
            case 'ready':
                $this->ready = true;
                $this->backoff->reset();
                break;
            case 'reset':
                $this->gather();
                $this->channel->tell(['returned', $this->discard() - $this->base]);
                break;
            case 'resume':
                $this->discarding--;
                break;
            case 'persisted':
                $this->persisted[$message[1]] = $message[2];
                break;
            case 'counts':
                ($this->counted)($message[1], $message[2]);
                break;
            case 'stop':
                $this->stopping = true;
                break;
            case 'taken_over':
                throw new SessionTakenOver($this->clientId);
            case 'error':
                throw new SidecarError($message[1], $message[2], $message[3]);
        }
    }

    /** The agent has ended: on request, or it was killed. */
    private function lost(): void
    {
        $this->channel?->close();
        $this->channel = null;
        $this->discard();
        $this->discarding = 0;
        $this->base = $this->next;
        $this->ackFirst = $this->next;
        $this->ackLast = $this->next - 1;
        if ($this->spawner === null || $this->stopping) {
            return;
        }
        $this->ready || throw new SidecarError('the helper process of the consumer did not start');
        $this->ready = false;
        $pause = $this->backoff->pause();
        ($this->event)(json_encode([
            'type' => 'disconnected',
            'reason' => 'the helper process of the consumer ended',
            'retry_in_ms' => (int) round($pause * 1000),
        ], JSON_THROW_ON_ERROR));
        usleep((int) ($pause * 1e6));
        $this->spawner->end();
        $this->channel = $this->spawner->start();
    }
}
