<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

use KinesisSidecar\Record;

/**
 * The handler of the examples in README.md.
 */
final class ReadmeHandler
{
    /** @var list<mixed> */
    public static array $handled = [];

    public function __invoke(Record $record): void
    {
        self::$handled[] = $record->json();
    }
}
