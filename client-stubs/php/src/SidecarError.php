<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar;

/**
 * The sidecar refused a request, or the package cannot be used like this (then the status is 0).
 */
class SidecarError extends \RuntimeException
{
    /**
     * @param int    $status HTTP status; 0 if the error is not an answer of the sidecar
     * @param string $reason short code of the sidecar, for example `invalid_argument`
     */
    public function __construct(string $message, public readonly int $status = 0, public readonly string $reason = '')
    {
        parent::__construct($message, $status);
    }
}
