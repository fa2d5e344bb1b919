<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

/**
 * Sends all deliveries to one process, in the order of arrival.
 *
 * @internal
 */
final class DirectDispatcher implements Dispatcher
{
    private ?Port $port = null;

    /** @var list<Delivery> */
    private array $queue = [];

    public function attach(Port $port): void
    {
        $this->port = $port;
    }

    public function detach(Port $port): void
    {
        $this->port = null;
    }

    public function offer(Delivery ...$deliveries): void
    {
        array_push($this->queue, ...$deliveries);
    }

    public function send(Run $run): bool
    {
        if ($this->queue !== [] || $this->port === null || $this->port->room() === 0) {
            return false;
        }
        $this->port->sendRun($run);

        return true;
    }

    public function putBack(array $deliveries): void
    {
        $this->queue = Delivery::sort([...$deliveries, ...$this->queue]);
    }

    public function left(Delivery ...$deliveries): void
    {
    }

    public function withdraw(\Closure $isWanted): array
    {
        $withdrawn = array_values(array_filter($this->queue, $isWanted));
        $this->queue = array_values(array_filter($this->queue, static fn ($delivery) => !$isWanted($delivery)));

        return $withdrawn;
    }

    public function pump(): void
    {
        if ($this->queue === [] || $this->port === null || $this->port->room() === 0) {
            return;
        }
        $open = array_filter($this->queue, static fn ($delivery) => $delivery->open);
        $open === [] || $this->port->send(...$open);
        $this->queue = [];
    }
}
