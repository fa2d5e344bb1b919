<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Laravel;

use Illuminate\Console\Command;
use KinesisSidecar\Consumer;
use KinesisSidecar\Record;
use KinesisSidecar\SessionTakenOver;
use KinesisSidecar\SidecarError;

/**
 * Calls a handler of the container with each record.
 */
final class ConsumeCommand extends Command
{
    protected $signature = 'kinesis-sidecar:consume
        {handler : Class with __invoke(Record) or handle(Record), made by the container}
        {--client-id= : Name of the session}
        {--concurrency=1 : Processes that handle records}
        {--ordering= : shard, key or none}
        {--max-in-flight=1000 : Maximum records delivered and not settled}
        {--ack-deadline=60 : Seconds until a record without an outcome is redelivered}
        {--subscription= : Needed if the sidecar has several}';

    protected $description = 'Handle the records of a Kinesis stream from kinesis-sidecar';

    public function handle(): int
    {
        $clientId = $this->option('client-id');
        if ($clientId === null || $clientId === '') {
            $this->error('--client-id is missing: name the session, for example --client-id=orders');

            return self::INVALID;
        }
        try {
            $this->consumer($clientId)->run(
                $this->handler(),
                (int) $this->option('concurrency'),
                $this->reconnectDatabases(...)
            );
        } catch (SidecarError | SessionTakenOver $error) {
            $this->error($error->getMessage());

            return self::FAILURE;
        }

        return self::SUCCESS;
    }

    private function consumer(string $clientId): Consumer
    {
        return $this->laravel->make(Consumer::class, [
            'clientId' => $clientId,
            'maxInFlight' => (int) $this->option('max-in-flight'),
            'ackDeadline' => (float) $this->option('ack-deadline'),
            'ordering' => $this->option('ordering'),
            'subscription' => $this->option('subscription'),
            'onEvent' => $this->note(...),
        ]);
    }

    /** Makes the handler at the first record: in the process that calls it. */
    private function handler(): \Closure
    {
        $class = $this->argument('handler');
        $handler = null;

        return function (Record $record) use ($class, &$handler): void {
            $handler ??= $this->laravel->make($class);
            is_callable($handler) ? $handler($record) : $handler->handle($record);
        };
    }

    /** A forked process must not share the connections of its parent. */
    private function reconnectDatabases(): void
    {
        if ($this->laravel->bound('db')) {
            foreach (array_keys($this->laravel['db']->getConnections()) as $name) {
                $this->laravel['db']->purge($name);
            }
        }
    }

    /** @param array<string, mixed> $event */
    private function note(array $event): void
    {
        if (in_array($event['type'] ?? '', ['disconnected', 'settle_failed'], true)) {
            $this->warn(json_encode($event, JSON_UNESCAPED_SLASHES | JSON_THROW_ON_ERROR));
        }
    }
}
