<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

use KinesisSidecar\SidecarError;

/**
 * Sends settle requests over a connection of its own, one at a time. A request that gets no answer is repeated.
 *
 * @internal
 */
final class Settler
{
    private const ITEMS_MAX = 1000;

    /** Far below the limit of the sidecar for a request. */
    private const REQUEST_BYTES = 262144;

    private const ANSWER_SECONDS = 10.0;

    /** Reasons of a refusal: the sidecar redelivers the record. */
    private const REDELIVERED = ['EXPIRED', 'FENCED'];

    private ?HttpConnection $connection = null;

    /** An answer came over the connection, so that its end may be the end of an idle one. */
    private bool $kept = false;

    /** @var list<Settlement> */
    private array $queue = [];

    /** @var list<Settlement> */
    private array $extensions = [];

    /** @var list<Settlement> items of the request that has no answer */
    private array $sent = [];

    private bool $sentExtensions = false;
    private string $body = '';
    private int $barriers = 0;
    private float $deadline = INF;
    private float $notBefore = 0.0;
    private readonly Backoff $backoff;

    /** @param Recalls $recalls gets the barriers of requests with a retry */
    public function __construct(
        private readonly Endpoint $endpoint,
        private readonly string $path,
        private readonly Recalls $recalls,
    ) {
        $this->backoff = new Backoff();
    }

    /** @param list<Settlement> $items */
    public function add(array $items): void
    {
        foreach ($items as $item) {
            $item->queue();
            $this->queue[] = $item;
        }
    }

    /** @param list<Settlement> $items extensions; their failures are ignored */
    public function extend(array $items): void
    {
        array_push($this->extensions, ...$items);
    }

    public function hasExtensions(): bool
    {
        return $this->extensions !== [];
    }

    public function isIdle(): bool
    {
        return $this->queue === [] && $this->sent === [];
    }

    /**
     * Returns the deliveries whose outcomes have no answer.
     *
     * @return list<Delivery>
     */
    public function unanswered(): array
    {
        $items = [...($this->sentExtensions ? [] : $this->sent), ...$this->queue];
        $kept = array_filter($items, static fn ($item) => !$item->withdrawn);

        return array_merge(...array_map(static fn ($item) => $item->deliveries(), array_values($kept)));
    }

    /** Forgets the outcome of a delivery, unless it was sent. */
    public function withdraw(Delivery $delivery): void
    {
        if ($delivery->settlement !== null) {
            $delivery->settlement->withdrawn = true;
            $delivery->settlement = null;
        }
    }

    /**
     * Forgets all items. Returns the deliveries whose outcomes have no answer.
     *
     * @return list<Delivery>
     */
    public function reset(): array
    {
        $deliveries = $this->unanswered();
        foreach ($this->sentExtensions ? $this->queue : [...$this->sent, ...$this->queue] as $item) {
            $item->release();
        }
        $this->queue = $this->extensions = $this->sent = [];
        $this->notBefore = 0.0;
        $this->backoff->reset();
        $this->disconnect();

        return $deliveries;
    }

    public function connection(): ?HttpConnection
    {
        return $this->connection;
    }

    /** Returns when `progress()` has something to do at the latest, without any bytes. */
    public function due(): float
    {
        if ($this->sent !== [] && $this->connection !== null) {
            return $this->deadline;
        }

        return $this->isIdle() && $this->extensions === [] ? INF : $this->notBefore;
    }

    /**
     * Sends the next request, and reads the answer of the last one.
     *
     * @param bool $readable the connection has bytes
     *
     * @return SettleResult|null an answer
     *
     * @throws SidecarError for a refusal of the request
     */
    public function progress(float $now, bool $readable): ?SettleResult
    {
        try {
            $result = $readable && $this->connection !== null ? $this->receive() : null;
            if ($now >= $this->deadline) {
                throw new ConnectionLost('a settle request got no answer');
            }
            if ($now >= $this->notBefore) {
                $this->send($now);
            }
            $this->connection?->flush();
        } catch (ConnectionLost $lost) {
            $result = null;
            $this->notBefore = $this->kept ? $now : $now + $this->backoff->pause(min($lost->retryAfter, 30.0));
            $this->disconnect();
        }

        return $result;
    }

    private function send(float $now): void
    {
        $repeated = $this->sent !== [];
        if ($repeated ? $this->connection !== null : !$this->prepare()) {
            return;
        }
        $this->connection ??= new HttpConnection($this->endpoint);
        $this->connection->send('POST', $this->path, $this->body);
        $this->deadline = $now + self::ANSWER_SECONDS;
    }

    /** Makes the next request, outcomes before extensions. */
    private function prepare(): bool
    {
        $this->sentExtensions = $this->queue === [];
        $this->sent = $this->sentExtensions ? $this->cut($this->extensions) : $this->cut($this->queue);
        if ($this->sent === []) {
            return false;
        }
        $json = array_map(static fn ($item) => $item->json, $this->sent);
        $this->body = '{"settlements":[' . implode(',', $json) . ']';
        $retried = array_filter(array_map(static fn ($item) => $item->retried, $this->sent));
        if ($retried !== []) {
            $barrier = (string) ++$this->barriers;
            $this->recalls->sending($retried, $barrier);
            foreach ($retried as $delivery) {
                // The retry may cause a redelivery, which the app gets.
                $delivery->unconfirmed = false;
            }
            $this->body .= ',"barrier":"' . $barrier . '"';
        }
        $this->body .= '}';

        return true;
    }

    /**
     * @param list<Settlement> $items
     *
     * @return list<Settlement>
     */
    private function cut(array &$items): array
    {
        $bytes = 0;
        $count = 0;
        $items = array_values(array_filter($items, static fn ($item) => !$item->withdrawn));
        foreach ($items as $item) {
            $bytes += strlen($item->json);
            if ($count === self::ITEMS_MAX || ($count > 0 && $bytes > self::REQUEST_BYTES)) {
                break;
            }
            // A refusal of another outcome must not take acknowledgements along.
            if ($item->isAck !== $items[0]->isAck) {
                break;
            }
            $count++;
        }

        return array_splice($items, 0, $count);
    }

    private function receive(): ?SettleResult
    {
        $this->connection->receive();
        if (!$this->connection->complete) {
            return null;
        }
        // An answer that asks for a later repetition is not the end of an idle connection.
        $this->kept = false;
        $result = $this->result();
        $this->sent = [];
        $this->backoff->reset();
        $this->deadline = INF;
        $this->kept = true;
        if ($this->connection->closesAfterAnswer()) {
            $this->disconnect();
        }

        return $result;
    }

    private function result(): ?SettleResult
    {
        try {
            $answer = $this->connection->answer();
        } catch (SidecarError $refusal) {
            if ($this->sentExtensions) {
                return null;
            }

            return in_array($refusal->status, [409, 410], true)
                ? new SettleResult($this->sent, [], true)
                : throw $refusal;
        }

        return $this->sentExtensions
            ? null
            : new SettleResult($this->sent, array_filter($answer['failed'] ?? [], $this->isRefusal(...)), false);
    }

    /**
     * Tells whether a failed item counts as refused. A retry does not if the sidecar redelivers its record: an earlier
     * copy, or a missed ack deadline, has taken the later records of the scope back.
     *
     * @param array<string, mixed> $failure
     */
    private function isRefusal(array $failure): bool
    {
        if (!in_array($failure['reason'] ?? '', self::REDELIVERED, true)) {
            return true;
        }
        $isRetry = static fn ($item) => $item->retried !== null && $item->id === $failure['ack_id'];

        return array_filter($this->sent, $isRetry) === [];
    }

    private function disconnect(): void
    {
        $this->connection?->close();
        $this->connection = null;
        $this->kept = false;
        $this->deadline = INF;
    }
}
