<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

use KinesisSidecar\SidecarError;

/**
 * An acknowledgement whose sender waits for the checkpoint.
 *
 * @internal
 */
final class PersistedAck
{
    private ?HttpConnection $connection = null;
    private float $deadline = INF;

    /** @param int $question is named in the answer */
    public function __construct(
        private readonly Channel $channel,
        private readonly int $question,
        public readonly Delivery $delivery,
        private readonly string $ackId,
    ) {
    }

    public function deadline(): float
    {
        return $this->deadline;
    }

    public function connection(): ?HttpConnection
    {
        return $this->connection;
    }

    /** Sends the request, if it was not sent. */
    public function begin(Endpoint $endpoint, string $path, float $deadline): void
    {
        if ($this->deadline !== INF) {
            return;
        }
        $this->deadline = $deadline;
        $body = '{"settlements":[{"ack_id":"' . $this->ackId . '","outcome":"ack"}],"wait":"persisted"}';
        try {
            $this->connection = new HttpConnection($endpoint);
            $this->connection->send('POST', $path, $body);
        } catch (ConnectionLost) {
            $this->deadline = 0.0;
        }
    }

    /** Reads the answer of the sidecar. Returns whether the acknowledgement is over. */
    public function receive(): bool
    {
        $persisted = false;
        try {
            $this->connection->receive();
            if (!$this->connection->complete) {
                return false;
            }
            $answer = $this->connection->answer();
            $persisted = ($answer['persisted'] ?? false) && ($answer['failed'] ?? []) === [];
        } catch (ConnectionLost | SidecarError) {
            // The record is redelivered.
        }
        $this->answer($persisted);

        return true;
    }

    public function answer(bool $persisted): void
    {
        $this->close();
        if ($this->delivery->ackId() === $this->ackId) {
            $this->delivery->unconfirmed = false;
        }
        $this->channel->tell(['persisted', $this->question, $persisted]);
    }

    public function close(): void
    {
        $this->connection?->close();
        $this->connection = null;
    }
}
