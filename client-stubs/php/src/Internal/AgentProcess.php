<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

use KinesisSidecar\SessionTakenOver;
use KinesisSidecar\SidecarError;

/**
 * Runs the agent for one process of an app, until that process closes its consumer or ends.
 *
 * @internal
 */
final class AgentProcess
{
    /** Limit of sending what waits at the end. */
    private const FINISH_SECONDS = 5.0;

    /** The same if the process of the app has died. */
    private const ORPHAN_SECONDS = 1.0;

    private const TURN_SECONDS = 1.0;

    private int $app = 0;

    /** @var array{int, int} numbers of stale and of failed settlements, as the app knows them */
    private array $counts = [0, 0];

    public function __construct(private readonly Channel $channel)
    {
    }

    public function run(): void
    {
        $start = $this->readStart();
        if ($start === null) {
            return;
        }
        $this->app = (int) $start[0];
        $agent = new Agent(Options::parse($start[1]), new DirectDispatcher(), $this->channel->write(...));
        $port = new Port($this->channel, false);
        $agent->attach($port);
        try {
            $this->serve($agent, $port);
        } catch (SessionTakenOver) {
            $this->channel->tell(['taken_over']);
        } catch (SidecarError $error) {
            $this->channel->tell(['error', $error->getMessage(), $error->status, $error->reason]);
        }
        $this->count($agent);
        $this->drain();
    }

    /** @return list<string>|null process id of the app, and options */
    private function readStart(): ?array
    {
        do {
            $read = [$this->channel->socket];
            $none = null;
            stream_select($read, $none, $none, null);
            $lines = $this->channel->read();
        } while ($lines === []);

        return $lines;
    }

    private function serve(Agent $agent, Port $port): void
    {
        $this->channel->tell(['ready']);
        try {
            for (;;) {
                $agent->turn(self::TURN_SECONDS);
                $this->count($agent);
                if ($this->isOrphan()) {
                    throw new PortClosed($port);
                }
            }
        } catch (PortClosed $closed) {
            // An app that died keeps its session: the sidecar counts a failure of the record that it handled.
            $agent->finish($closed->asked ? self::FINISH_SECONDS : self::ORPHAN_SECONDS, $closed->asked);
        }
    }

    private function count(Agent $agent): void
    {
        $counts = [$agent->outcomes->stale, $agent->outcomes->failed];
        if ($counts !== $this->counts) {
            $this->channel->tell(['counts', $counts[0] - $this->counts[0], $counts[1] - $this->counts[1]]);
            $this->counts = $counts;
        }
    }

    /** A process that the app started may keep the socket open when the app has died. */
    private function isOrphan(): bool
    {
        clearstatcache();

        return is_dir('/proc/self') && !is_dir("/proc/{$this->app}");
    }

    /** Writes what is left for the app, as long as it reads. */
    private function drain(): void
    {
        $until = Clock::now() + self::FINISH_SECONDS;
        while ($this->channel->hasOutput() && Clock::now() < $until) {
            $none = null;
            $write = [$this->channel->socket];
            stream_select($none, $write, $none, 0, 100000);
            $this->channel->flush();
        }
    }
}
