<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Internal;

use KinesisSidecar\Record;

/**
 * Table of the records whose effects are in the database.
 *
 * @internal
 */
final class Applied
{
    private const COLUMNS = 'client_id, stream, shard_id, sequence_number, sub_sequence_number, epoch';

    /** @var \WeakMap<\PDO, true> connections whose database has the table */
    private static \WeakMap $created;

    public function __construct(private readonly \PDO $connection)
    {
        self::$created ??= new \WeakMap();
        $mode = $connection->getAttribute(\PDO::ATTR_ERRMODE);
        $mode === \PDO::ERRMODE_EXCEPTION || throw new \LogicException('applyOnce needs PDO::ERRMODE_EXCEPTION');
    }

    /** @param callable(\PDO, Record): mixed $effect */
    public function once(string $clientId, Record $record, callable $effect): bool
    {
        isset(self::$created[$this->connection]) || $this->create();
        $this->connection->beginTransaction();
        try {
            $fresh = $this->insert($clientId, $record);
            if ($fresh) {
                $effect($this->connection, $record);
            }
            $this->connection->commit();
        } catch (\Throwable $error) {
            $this->connection->inTransaction() && $this->connection->rollBack();
            throw $error;
        }

        return $fresh;
    }

    private function create(): void
    {
        $this->connection->exec('CREATE TABLE IF NOT EXISTS kinesis_sidecar_applied ('
            . 'client_id VARCHAR(64) NOT NULL, stream VARCHAR(255) NOT NULL, shard_id VARCHAR(128) NOT NULL, '
            . 'sequence_number VARCHAR(128) NOT NULL, sub_sequence_number BIGINT NOT NULL, epoch BIGINT NOT NULL, '
            . 'PRIMARY KEY (client_id, stream, shard_id, sequence_number, sub_sequence_number))');
        self::$created[$this->connection] = true;
    }

    /** Returns false if the row is there. Another transaction with the row is waited for. */
    private function insert(string $clientId, Record $record): bool
    {
        $into = 'INTO kinesis_sidecar_applied (' . self::COLUMNS . ') VALUES (?, ?, ?, ?, ?, ?)';
        $sql = $this->connection->getAttribute(\PDO::ATTR_DRIVER_NAME) === 'mysql'
            ? "INSERT IGNORE $into"
            : "INSERT $into ON CONFLICT DO NOTHING";
        $statement = $this->connection->prepare($sql);
        $statement->execute([
            $clientId,
            $record->stream,
            $record->shardId,
            $record->sequenceNumber,
            $record->subSequenceNumber,
            $record->epoch,
        ]);

        return $statement->rowCount() === 1;
    }
}
