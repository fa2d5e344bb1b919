<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

/**
 * Reads members of a record line without parsing all of it. A quote within a JSON text is escaped, so that `"name":`
 * is always a member.
 *
 * @internal
 */
final class Line
{
    public const RECORD = '{"type":"record","ack_id":"';

    private const DATA = ',"data":"';

    /** Returns the JSON text between the quotes, escapes included, or the digits of a number. */
    public static function raw(string $line, string $member): string
    {
        $pattern = '/"' . $member . '":(?:"((?:[^"\\\\]|\\\\.)*+)"|(\d++))/';

        return preg_match($pattern, $line, $found) === 1 ? ($found[2] ?? $found[1]) : '';
    }

    /** Returns what names the record in every delivery, until it is a dead letter that is delivered again. */
    public static function identity(string $line): string
    {
        return self::raw($line, 'shard_id') . '/' . self::raw($line, 'sequence_number')
            . '/' . self::raw($line, 'sub_sequence_number') . (self::isRedriven($line) ? '/redriven' : '');
    }

    /** Tells whether the record is a dead letter that is delivered again. */
    public static function isRedriven(string $line): bool
    {
        return str_contains($line, '"redriven":true');
    }

    /** Tells whether this is the first delivery of the record in the lease epoch. */
    public static function isFirst(string $line): bool
    {
        return str_contains($line, '"attempt":1,');
    }

    /**
     * Writes a record with its members in the order that the fast readers expect.
     *
     * @param array<string, mixed> $record
     */
    public static function of(array $record): string
    {
        $first = ['type' => 'record', 'ack_id' => $record['ack_id'] ?? '', 'batch_id' => $record['batch_id'] ?? ''];

        return json_encode($first + $record, JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_THROW_ON_ERROR);
    }

    /** Returns the decoded data. */
    public static function data(string $line): string
    {
        $begin = strpos($line, self::DATA);
        if ($begin !== false && str_ends_with($line, '"}')) {
            $data = base64_decode(substr($line, $begin + strlen(self::DATA), -2), true);
            if ($data !== false) {
                return $data;
            }
        }

        return base64_decode(self::parse($line)['data'] ?? '');
    }

    /**
     * Returns the members of the record; without `data` if it is the last one.
     *
     * @return array<string, mixed>
     */
    public static function head(string $line): array
    {
        $begin = strpos($line, self::DATA);
        $ends = $begin !== false && strpos($line, '"', $begin + strlen(self::DATA)) === strlen($line) - 2;

        return self::parse($ends ? substr($line, 0, $begin) . '}' : $line);
    }

    /** @return array<string, mixed> */
    private static function parse(string $line): array
    {
        return json_decode($line, true, 8, JSON_THROW_ON_ERROR);
    }
}
