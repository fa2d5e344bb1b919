<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Testing;

use KinesisSidecar\Outcome;
use KinesisSidecar\Record;

/**
 * What an app did with a record.
 */
final class FakeOutcome
{
    public function __construct(
        public readonly Record $record,
        public readonly Outcome $outcome,
        public readonly ?float $delay = null,
        public readonly string $reason = '',
    ) {
    }
}
