<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

/**
 * Names the scope of a record, the unit of order: a retry takes back the later records of its scope.
 *
 * @internal
 */
final class Scopes
{
    /** Scope of records without order. */
    public const NONE = '';

    /** @param 'shard'|'key'|'none' $ordering */
    public function __construct(private readonly string $ordering)
    {
    }

    public function of(Delivery $delivery): string
    {
        return $delivery->scope ??= $this->name($delivery);
    }

    private function name(Delivery $delivery): string
    {
        if ($this->ordering === 'none' || Line::isRedriven($delivery->line)) {
            return self::NONE;
        }
        $shard = $delivery->batch->shard;

        return $this->ordering === 'shard' ? $shard : $shard . '/' . (int) Line::raw($delivery->line, 'lane');
    }
}
