<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

use KinesisSidecar\SidecarError;

/**
 * Starts an agent as a process of its own. It is not forked, so that it shares no connection of the app.
 *
 * @internal
 */
final class AgentSpawner
{
    private readonly int $owner;

    /** @var resource|null */
    private mixed $process = null;

    public function __construct(private readonly Options $options)
    {
        $this->owner = (int) getmypid();
    }

    public function start(): Channel
    {
        // A signal for the whole process group, as Ctrl-C sends it, is for the app: it ends its agent.
        $command = ['/bin/sh', '-c', 'trap "" INT TERM HUP; exec "$@"', 'sh', PHP_BINARY];
        $settings = ['-n', '-d', 'memory_limit=-1', '-d', 'display_errors=stderr', __DIR__ . '/agent.php'];
        $process = proc_open(
            [...$command, ...$settings],
            [0 => ['socket'], 1 => ['file', '/dev/null', 'w']],
            $pipes
        );
        $process !== false || throw new SidecarError('cannot start the helper process of the consumer by proc_open');
        $this->process = $process;
        $channel = new Channel($pipes[0]);
        $channel->write($this->owner . "\n" . $this->options->json());

        return $channel;
    }

    /** Waits for the end of the agent, whose channel is closed. */
    public function end(): void
    {
        if ($this->process !== null && $this->isOwner()) {
            proc_close($this->process);
        }
        $this->process = null;
    }

    public function isOwner(): bool
    {
        return getmypid() === $this->owner;
    }

    /** @throws SidecarError in a process that the owner of the consumer forked */
    public function checkOwner(): void
    {
        $this->isOwner()
            || throw new SidecarError('the consumer belongs to the parent process: make one after the fork');
    }
}
