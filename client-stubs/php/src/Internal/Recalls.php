<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

/**
 * Scopes with a retry whose effect is not known. Their records are held until the sidecar has answered the retry, and
 * the barrier of its request has passed. The redelivery of the retried record replaces both.
 *
 * @internal
 */
final class Recalls
{
    /** @var array<string, array{held: list<Delivery>, open: int}> held records and number of retries, by scope */
    private array $scopes = [];

    /**
     * Retries by object id of their record. They take back records that arrived before the place `before`.
     *
     * @var array<int, array{record: Delivery, barrier: string, accepted: ?bool, passed: bool, before: ?int}>
     */
    private array $retries = [];

    /** @var array<string, array<int, int>> keys of `retries` by identity of the record */
    private array $keys = [];

    /** @param \Closure(): list<Delivery> $atApp returns the deliveries that processes of the app have */
    public function __construct(private readonly Scopes $names, private readonly \Closure $atApp)
    {
    }

    /** Holds the records of the scope from now on. Returns false if the retry takes nothing back. */
    public function begin(Delivery $retried): bool
    {
        $scope = $this->names->of($retried);
        if ($scope === Scopes::NONE) {
            return false;
        }
        $this->scopes[$scope] ??= ['held' => [], 'open' => 0];
        $id = spl_object_id($retried);
        // A retry that was not sent becomes one of the redelivery.
        isset($this->retries[$id]) || $this->scopes[$scope]['open']++;
        $this->keys[$retried->identity()][$id] = $id;
        $this->retries[$id] = [
            'record' => $retried,
            'barrier' => '',
            'accepted' => null,
            'passed' => false,
            // After a lost lease the record may be settled elsewhere: nothing of the next lease is taken back.
            'before' => $retried->batch->current ? null : 0,
        ];

        return true;
    }

    /**
     * Notes the barrier of the request that has these retries.
     *
     * @param array<Delivery> $retried
     */
    public function sending(array $retried, string $barrier): void
    {
        foreach ($retried as $delivery) {
            if (isset($this->retries[spl_object_id($delivery)])) {
                $this->retries[spl_object_id($delivery)]['barrier'] = $barrier;
            }
        }
    }

    public function isEmpty(): bool
    {
        return $this->scopes === [];
    }

    public function isHeld(Delivery $delivery): bool
    {
        return $this->scopes !== [] && isset($this->scopes[$this->names->of($delivery)]);
    }

    /** Keeps a record of a scope with a retry. Returns false for all others. */
    public function hold(Delivery $delivery): bool
    {
        if (!$this->isHeld($delivery)) {
            return false;
        }
        $this->scopes[$this->names->of($delivery)]['held'][] = $delivery;

        return true;
    }

    /**
     * Notes that the stream had a barrier before the record of the place `$before`.
     *
     * @return array{list<Delivery>, list<Delivery>} records to drop, and records to hand out
     */
    public function barrier(string $barrier, int $before): array
    {
        foreach ($this->retries as $id => $retry) {
            if ($retry['barrier'] === $barrier) {
                $this->retries[$id]['passed'] = true;
                $this->retries[$id]['before'] ??= $before;
            }
        }

        return $this->resolve(array_keys($this->retries));
    }

    /**
     * Notes the redelivery of a record, which may be a retried one.
     *
     * @return array{list<Delivery>, list<Delivery>} records to drop, and records to hand out
     */
    public function redelivered(Delivery $redelivery): array
    {
        $ids = $this->keys[$redelivery->identity()] ?? [];
        foreach ($ids as $id) {
            $this->retries[$id]['accepted'] = $this->retries[$id]['passed'] = true;
            $this->retries[$id]['before'] ??= $redelivery->place;
        }

        return $this->resolve($ids);
    }

    /** Notes that the lease of a shard was lost before the record of the place `$before`. */
    public function loseShard(string $shard, int $before): void
    {
        foreach ($this->retries as $id => $retry) {
            if ($retry['record']->batch->shard === $shard) {
                $this->retries[$id]['before'] ??= $before;
            }
        }
    }

    /**
     * Notes the answer about retries.
     *
     * @param array<int, bool> $accepted by object id of the record
     *
     * @return array{list<Delivery>, list<Delivery>} records to drop, and records to hand out
     */
    public function answered(array $accepted): array
    {
        foreach (array_intersect_key($accepted, $this->retries) as $id => $isAccepted) {
            $this->retries[$id]['accepted'] = $isAccepted;
        }

        return $this->resolve(array_keys($accepted));
    }

    public function reset(): void
    {
        $this->scopes = $this->retries = $this->keys = [];
    }

    /**
     * @param array<int> $ids keys of `retries`
     *
     * @return array{list<Delivery>, list<Delivery>}
     */
    private function resolve(array $ids): array
    {
        $dropped = $released = [];
        foreach (array_intersect_key($this->retries, array_flip($ids)) as $id => $retry) {
            if ($retry['accepted'] === null || !$retry['passed']) {
                continue;
            }
            $this->forget($id);
            $scope = $this->names->of($retry['record']);
            if ($retry['accepted']) {
                array_push($dropped, ...$this->takeBack($scope, $retry['record'], $retry['before']));
            }
            if (--$this->scopes[$scope]['open'] === 0) {
                array_push($released, ...Delivery::sort($this->scopes[$scope]['held']));
                unset($this->scopes[$scope]);
            }
        }

        return [$dropped, $released];
    }

    private function forget(int $id): void
    {
        $identity = $this->retries[$id]['record']->identity();
        unset($this->retries[$id], $this->keys[$identity][$id]);
        if ($this->keys[$identity] === []) {
            unset($this->keys[$identity]);
        }
    }

    /**
     * Removes and returns the held records that the sidecar redelivers after the retried one. Those of a loop of the
     * app are not handed out again when it is left.
     *
     * @return list<Delivery>
     */
    private function takeBack(string $scope, Delivery $retried, int $before): array
    {
        $isTaken = fn (Delivery $delivery): bool => $delivery->place < $before
            && $this->names->of($delivery) === $scope && $delivery->isAfter($retried);
        foreach (array_filter(($this->atApp)(), $isTaken) as $delivery) {
            $delivery->replaced = true;
        }
        $held = $this->scopes[$scope]['held'];
        $dropped = array_filter($held, $isTaken);
        $this->scopes[$scope]['held'] = array_values(array_diff_key($held, $dropped));

        return array_values($dropped);
    }
}
