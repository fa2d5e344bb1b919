<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar;

/**
 * Another process opened a stream with the same client id. The consumer does not connect again.
 */
final class SessionTakenOver extends \RuntimeException
{
    public function __construct(string $clientId)
    {
        parent::__construct("another process took over the client_id $clientId");
    }
}
