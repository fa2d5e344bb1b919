<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

/**
 * A connection ended, could not be made, or carried something that is not HTTP. The package connects again.
 *
 * @internal
 */
final class ConnectionLost extends \RuntimeException
{
    /** @param float $retryAfter seconds that the sidecar asked to wait */
    public function __construct(string $message, public readonly float $retryAfter = 0.0)
    {
        parent::__construct($message);
    }
}
