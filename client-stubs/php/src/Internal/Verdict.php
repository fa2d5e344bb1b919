<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

use KinesisSidecar\Outcome;

/**
 * An outcome with its delay and its reason.
 *
 * @internal
 */
final class Verdict
{
    /** Bytes of a reason that the sidecar keeps. */
    private const REASON_BYTES = 1000;

    public function __construct(
        public readonly Outcome $outcome,
        public readonly ?int $delayMs = null,
        public readonly string $reason = '',
    ) {
    }

    /** Writes the item of a settle request. */
    public function json(string $ackId): string
    {
        $item = ['ack_id' => $ackId, 'outcome' => $this->outcome->value];
        if ($this->delayMs !== null) {
            $item['delay_ms'] = $this->delayMs;
        }
        if ($this->reason !== '') {
            $item['reason'] = str_replace("\0", '?', substr($this->reason, 0, self::REASON_BYTES));
        }

        return json_encode($item, JSON_UNESCAPED_UNICODE | JSON_INVALID_UTF8_SUBSTITUTE | JSON_THROW_ON_ERROR);
    }
}
