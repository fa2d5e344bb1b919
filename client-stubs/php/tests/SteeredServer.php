<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

/**
 * A scripted server that the test steers while the consumer runs: by further lines of the stream, and by the answers of
 * settle requests. Until then it accepts all settlements.
 */
final class SteeredServer
{
    public readonly ScriptedServer $server;

    /** @param int ...$numbers records of the first batch */
    public function __construct(int ...$numbers)
    {
        $this->server = new ScriptedServer(static function (Exchange $exchange, \stdClass $state) use ($numbers): void {
            if ($exchange->isStream()) {
                $state->stream = $exchange;
                parse_str(parse_url($exchange->path, PHP_URL_QUERY), $query);
                $exchange->stream((int) $query['ack_deadline_ms']);
                self::write($exchange, array_map(static fn (int $number): array => [$number, []], $numbers));
            } elseif ($exchange->path === '/steer') {
                self::steer($exchange, $state);
            } elseif ($exchange->isSettle() && ($state->isSilent ?? false)) {
                $exchange->close();
            } elseif ($exchange->isSettle() && ($state->status ?? 200) !== 200) {
                $exchange->answer($state->status, ['code' => 'session-ended']);
            } else {
                $exchange->answer(200, ['failed' => $state->failed ?? []]);
                $state->failed = [];
            }
        });
    }

    /** Lets the next settle requests end without an answer. */
    public function beSilent(): void
    {
        $this->post(['isSilent' => true]);
    }

    /** Answers settle requests again. The next one is refused for a reason. */
    public function refuse(string $ackId, string $reason): void
    {
        $this->post(['isSilent' => false, 'failed' => [['ack_id' => $ackId, 'reason' => $reason]]]);
    }

    /** Lets the next settle requests be refused by a status: their session has ended. */
    public function refuseSession(int $status): void
    {
        $this->post(['status' => $status]);
    }

    /** Answers settle requests again. */
    public function accept(): void
    {
        $this->post(['isSilent' => false]);
    }

    /** @param array<mixed> ...$lines events, or numbers of records with their members */
    public function send(array ...$lines): void
    {
        $this->post(['lines' => $lines]);
    }

    /** @return list<array{string, string}> ids and outcomes of all settlements, in their order */
    public function outcomes(): array
    {
        $pair = static fn (array $item): array => [$item['ack_id'] ?? $item['batch_id'], $item['outcome']];

        return array_map($pair, $this->server->settlements());
    }

    /** @param array<string, mixed> $order */
    private function post(array $order): void
    {
        $http = ['method' => 'POST', 'header' => 'Content-Type: application/json', 'content' => json_encode($order)];
        file_get_contents($this->server->url . '/steer', false, stream_context_create(['http' => $http]));
    }

    private static function steer(Exchange $exchange, \stdClass $state): void
    {
        $order = json_decode($exchange->body, true);
        self::write($state->stream, $order['lines'] ?? []);
        $state->isSilent = $order['isSilent'] ?? $state->isSilent ?? false;
        $state->failed = $order['failed'] ?? $state->failed ?? [];
        $state->status = $order['status'] ?? 200;
        $exchange->answer(200, []);
        $exchange->close();
    }

    /** @param list<array<mixed>> $lines */
    private static function write(Exchange $stream, array $lines): void
    {
        foreach ($lines as $line) {
            if (isset($line['type'])) {
                $stream->line($line);
            } else {
                [$number, $members] = $line;
                $stream->record($number, (string) $number, $members + ['batch_id' => 'first']);
            }
        }
    }
}
