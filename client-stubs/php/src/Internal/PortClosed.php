<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

/**
 * A process of the app has ended, or wants to close its consumer.
 *
 * @internal
 */
final class PortClosed extends \RuntimeException
{
    public function __construct(public readonly Port $port, public readonly bool $asked = false)
    {
        parent::__construct('the process of the app has ended');
    }
}
