<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

/*
 * The process that talks to the sidecar for a consumer. `AgentSpawner` starts it. Its standard input is a socket to
 * the app.
 */

namespace KinesisSidecar\Internal;

spl_autoload_register(static function (string $class): void {
    require dirname(__DIR__) . '/' . strtr(substr($class, strlen('KinesisSidecar\\')), '\\', '/') . '.php';
});
// The agent breaks the cycles of its objects itself.
gc_disable();
(new AgentProcess(new Channel(fopen('php://fd/0', 'r+'))))->run();
