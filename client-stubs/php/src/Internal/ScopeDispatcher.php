<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

/**
 * Shares deliveries among processes. The deliveries of one scope are sent one after the other: the next one follows
 * when the one before has its outcome.
 *
 * @internal
 */
final class ScopeDispatcher implements Dispatcher
{
    /** @var list<Port> */
    private array $ports = [];

    /** @var array<string, list<Delivery>> by scope, without empty ones */
    private array $queues = [];

    /** @var array<string, true> scopes with a queue and no delivery at a process, in the order of their turns */
    private array $ready = [];

    /** @var array<string, true> scopes with a delivery at a process */
    private array $busy = [];

    public function __construct(private readonly Scopes $names)
    {
    }

    public function attach(Port $port): void
    {
        $this->ports[] = $port;
    }

    public function detach(Port $port): void
    {
        $this->ports = array_values(array_filter($this->ports, static fn ($other) => $other !== $port));
    }

    public function offer(Delivery ...$deliveries): void
    {
        foreach ($deliveries as $delivery) {
            $scope = $this->name($delivery);
            $this->queues[$scope][] = $delivery;
            if (!isset($this->busy[$scope])) {
                $this->ready[$scope] = true;
            }
        }
    }

    public function send(Run $run): bool
    {
        return false;
    }

    public function putBack(array $deliveries): void
    {
        $this->offer(...$deliveries);
        foreach ($deliveries as $delivery) {
            $scope = $this->name($delivery);
            $this->queues[$scope] = Delivery::sort($this->queues[$scope]);
        }
    }

    public function left(Delivery ...$deliveries): void
    {
        foreach ($deliveries as $delivery) {
            $scope = $this->name($delivery);
            unset($this->busy[$scope]);
            if (isset($this->queues[$scope])) {
                $this->ready[$scope] = true;
            }
        }
    }

    public function withdraw(\Closure $isWanted): array
    {
        $withdrawn = [];
        foreach ($this->queues as $scope => $queue) {
            $kept = [];
            foreach ($queue as $delivery) {
                if ($isWanted($delivery)) {
                    $withdrawn[] = $delivery;
                } else {
                    $kept[] = $delivery;
                }
            }
            $this->queues[$scope] = $kept;
            if ($kept === []) {
                unset($this->queues[$scope], $this->ready[$scope]);
            }
        }

        return $withdrawn;
    }

    public function pump(): void
    {
        foreach ($this->ready as $scope => $_) {
            $port = $this->freest();
            if ($port === null) {
                break;
            }
            $delivery = $this->next($scope);
            unset($this->ready[$scope]);
            if ($delivery !== null) {
                $port->send($delivery);
                $this->busy[$scope] = true;
            }
        }
    }

    /** Removes and returns the next delivery of a scope that was not dropped. */
    private function next(string $scope): ?Delivery
    {
        do {
            $delivery = array_shift($this->queues[$scope]);
        } while ($delivery?->open === false);
        if ($this->queues[$scope] === []) {
            unset($this->queues[$scope]);
        }

        return $delivery;
    }

    /** Returns the process that has the fewest deliveries, if it may get one. */
    private function freest(): ?Port
    {
        $freest = null;
        foreach ($this->ports as $port) {
            if ($port->room() > 0 && ($freest === null || count($port->sent) < count($freest->sent))) {
                $freest = $port;
            }
        }

        return $freest;
    }

    /** Returns the scope; a record without order has one of its own. */
    private function name(Delivery $delivery): string
    {
        $scope = $this->names->of($delivery);

        return $scope === Scopes::NONE ? '#' . spl_object_id($delivery) : $scope;
    }
}
