<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar;

/**
 * Final outcome of a record.
 */
enum Outcome: string
{
    case Ack = 'ack';
    case Retry = 'retry';
    case DeadLetter = 'dead_letter';
    case Drop = 'drop';
}
