<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

use KinesisSidecar\Internal\Agent;
use KinesisSidecar\Internal\AgentLink;
use KinesisSidecar\Internal\Channel;
use KinesisSidecar\Internal\Clock;
use KinesisSidecar\Internal\DirectDispatcher;
use KinesisSidecar\Internal\Options;
use KinesisSidecar\Internal\Port;
use KinesisSidecar\Internal\ScopeDispatcher;
use KinesisSidecar\Internal\Scopes;
use KinesisSidecar\Record;

/**
 * An agent and its app in one process, so that the test decides which of them acts.
 */
final class AgentPair
{
    private const SECONDS = 20.0;

    public readonly Agent $agent;

    /** @var list<array<string, mixed>> */
    public array $events = [];

    private readonly AgentLink $link;

    public function __construct(
        private readonly SteeredServer $server,
        string $ordering = 'shard',
        float $ackInterval = 0.0,
        float $ackDeadline = 60.0,
        bool $limited = false,
    ) {
        $url = $server->server->url;
        $limits = [1000, 1 << 24, $ackDeadline, 3600.0, $ackInterval];
        $options = new Options('test', ...[...$limits, $ordering, null, [], null, $url, null]);
        $dispatcher = $limited ? new ScopeDispatcher(new Scopes($ordering)) : new DirectDispatcher();
        $this->agent = new Agent($options, $dispatcher, function (string $event): void {
            $this->events[] = json_decode($event, true);
        });
        $sockets = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $this->agent->attach(new Port(new Channel($sockets[0]), $limited));
        $ignore = static fn () => null;
        $this->link = new AgentLink(null, $ignore, $ignore, 'test', new Channel($sockets[1]));
    }

    public function __destruct()
    {
        $this->agent->abandon();
    }

    /** Lets the agent act until a fact comes true. */
    public function until(\Closure $fact): void
    {
        $until = Clock::now() + self::SECONDS;
        while (!$fact()) {
            Clock::now() < $until || throw new \RuntimeException('a fact did not come true');
            $this->agent->turn(0.01);
        }
    }

    /** Lets the server send lines, and the agent read them. */
    public function receive(array ...$lines): void
    {
        $mark = ['type' => 'mark', 'number' => count($this->events)];
        $this->server->send(...[...$lines, $mark]);
        $this->until(fn () => in_array($mark, $this->events, true));
    }

    /** Lets the server send records as a batch of their own, and the agent read them. */
    public function receiveBatch(string $batchId, array ...$records): void
    {
        $this->receive(...array_map(
            static fn (array $record): array => [$record[0], $record[1] + ['batch_id' => $batchId]],
            $records
        ));
    }

    /**
     * Waits for `$count` records, and begins them.
     *
     * @return list<Record>
     */
    public function take(int $count): array
    {
        $this->until(fn () => $this->link->await($count, 0.0) >= $count);

        return array_map(fn () => $this->link->take(), range(1, $count));
    }

    /** Waits for an outcome at the server. */
    public function untilOutcome(string $id, string $outcome): void
    {
        $this->until(fn () => in_array([$id, $outcome], $this->server->outcomes(), true));
    }

    /** Lets the app send its outcomes, and read what the agent has sent, and the other way round. */
    public function flush(): void
    {
        foreach ([1, 2, 3] as $_) {
            $this->link->await(PHP_INT_MAX, 0.0);
            $this->agent->turn(0.0);
        }
    }

    /** Returns how many records the app may begin. */
    public function waiting(): int
    {
        $this->flush();

        return $this->link->await(1, 0.0);
    }

    /** Lets the app send its outcomes, and the agent end the session. */
    public function finish(): void
    {
        $this->flush();
        $this->agent->finish(self::SECONDS, true);
    }
}
