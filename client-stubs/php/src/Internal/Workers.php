<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

use KinesisSidecar\SidecarError;

/**
 * Forks processes that handle records, and runs the agent for them. A process that dies is started again.
 *
 * @internal
 */
final class Workers
{
    private const TURN_SECONDS = 0.25;
    private const FINISH_SECONDS = 5.0;

    /** A process that lives longer did not die of its start. */
    private const SETTLED_SECONDS = 10.0;

    public readonly Agent $agent;

    /** @var array<int, Port> by number of the process */
    private array $ports = [];

    /** @var array<int, int> process ids, by number */
    private array $pids = [];

    /** @var array<int, float> times of starts: planned, or past ones */
    private array $startAt;

    /** @var array<int, Backoff> */
    private array $backoffs = [];

    /** Set by a signal handler: the loop takes note of it. */
    private bool $stopAsked = false;

    private bool $stopping = false;

    /** @var array<int, true> numbers of processes that have ended, and whose outcomes may be to read */
    private array $ended = [];

    /**
     * @param \Closure(string): void    $report gets each event as a JSON object
     * @param \Closure(Link, int): void $work   handles records in the process of a number, until `await()` returns 0
     */
    public function __construct(
        private readonly Options $options,
        int $count,
        \Closure $report,
        private readonly \Closure $work,
    ) {
        if (!function_exists('pcntl_fork') || !function_exists('posix_kill')) {
            throw new SidecarError('a concurrency above 1 needs ext-pcntl and ext-posix');
        }
        $this->agent = new Agent($options, new ScopeDispatcher(new Scopes($options->ordering ?? 'shard')), $report);
        $this->startAt = array_fill(1, $count, 0.0);
        foreach ($this->startAt as $number => $_) {
            $this->backoffs[$number] = new Backoff();
        }
    }

    public function stop(): void
    {
        $this->stopAsked = true;
    }

    /** Lets the processes finish what they handle, and end. */
    private function stopAll(): void
    {
        if ($this->stopping) {
            return;
        }
        $this->stopping = true;
        $this->agent->stop();
        foreach ($this->ports as $port) {
            $port->channel->tell(['stop']);
            $port->channel->flush();
        }
        foreach ($this->pids as $pid) {
            posix_kill($pid, SIGTERM);
        }
    }

    /** Serves the processes until a stop. */
    public function run(): void
    {
        try {
            while (!$this->stopping || $this->pids !== []) {
                $this->stopAsked ? $this->stopAll() : $this->startAll();
                $this->turn();
                $this->reap();
            }
            $this->agent->finish(self::FINISH_SECONDS, true);
        } finally {
            $this->stopAll();
            $this->waitForAll();
            $this->agent->abandon();
        }
    }

    private function turn(): void
    {
        try {
            $this->agent->turn(self::TURN_SECONDS);
        } catch (PortClosed $closed) {
            $this->closed($closed->port);
        }
    }

    private function startAll(): void
    {
        $now = Clock::now();
        foreach ($this->startAt as $number => $at) {
            if (!isset($this->ports[$number]) && !isset($this->pids[$number]) && $now >= $at) {
                $this->startAt[$number] = $now;
                $this->start($number);
            }
        }
    }

    private function start(int $number): void
    {
        $sockets = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $pid = $sockets === false ? -1 : pcntl_fork();
        if ($pid < 0) {
            throw new SidecarError('cannot fork a process for the handler');
        }
        if ($pid === 0) {
            fclose($sockets[0]);
            $this->agent->abandon();
            $this->handle($number, new Channel($sockets[1]));
        }
        fclose($sockets[1]);
        $this->pids[$number] = $pid;
        $this->ports[$number] = new Port(new Channel($sockets[0]), true);
        $this->agent->attach($this->ports[$number]);
    }

    /** The life of a forked process. */
    private function handle(int $number, Channel $channel): never
    {
        $ignore = static fn () => null;
        $link = new AgentLink(null, $ignore, $ignore, $this->options->clientId, $channel);
        new Signals($link->stop(...));
        try {
            ($this->work)($link, $number);
            $link->close();
        } catch (\Throwable $error) {
            fwrite(STDERR, "kinesis-sidecar: worker $number ended: $error\n");
            exit(1);
        }
        exit(0);
    }

    /** Learns of processes that have ended. */
    private function reap(): void
    {
        foreach (array_intersect_key($this->ports, $this->ended) as $port) {
            // A process that the handler started may keep the socket open.
            $this->closed($port);
        }
        $this->ended = [];
        foreach ($this->pids as $number => $pid) {
            if (pcntl_waitpid($pid, $status, WNOHANG) === 0) {
                continue;
            }
            unset($this->pids[$number]);
            $this->ended[$number] = true;
            $lived = Clock::now() - $this->startAt[$number];
            $lived < self::SETTLED_SECONDS || $this->backoffs[$number]->reset();
            $this->startAt[$number] = Clock::now() + $this->backoffs[$number]->pause();
        }
    }

    private function closed(Port $port): void
    {
        $this->agent->detach($port, 'the process of the handler ended');
        $this->ports = array_filter($this->ports, static fn ($other) => $other !== $port);
    }

    private function waitForAll(): void
    {
        foreach ($this->pids as $pid) {
            while (pcntl_waitpid($pid, $status) === -1 && pcntl_get_last_error() === PCNTL_EINTR) {
                continue;
            }
        }
        $this->pids = [];
    }
}
