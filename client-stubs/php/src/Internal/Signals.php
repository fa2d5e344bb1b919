<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

/**
 * Calls a function for SIGTERM and SIGINT, until it is released. Does nothing without ext-pcntl.
 *
 * @internal
 */
final class Signals
{
    private bool $async = false;

    /** @var array<int, mixed> handlers of the app, by signal */
    private array $handlers = [];

    /** @param \Closure(): void $stop */
    public function __construct(\Closure $stop)
    {
        if (!function_exists('pcntl_async_signals')) {
            return;
        }
        $this->async = pcntl_async_signals(true);
        foreach ([SIGTERM, SIGINT] as $signal) {
            $this->handlers[$signal] = pcntl_signal_get_handler($signal);
            pcntl_signal($signal, static fn () => $stop());
        }
    }

    public function release(): void
    {
        foreach ($this->handlers as $signal => $handler) {
            pcntl_signal($signal, $handler);
        }
        $this->handlers === [] || pcntl_async_signals($this->async);
        $this->handlers = [];
    }
}
