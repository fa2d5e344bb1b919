<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar;

use KinesisSidecar\Internal\Applied;

if (!\function_exists(__NAMESPACE__ . '\applyOnce')) {
    /**
     * Runs `$effect` at most once per record: in one transaction of the app's database with a row that names the
     * record. The row is in the table `kinesis_sidecar_applied`, which is made if it is not there.
     *
     * A transaction that fails is rolled back, and its error is thrown on. All processes of an app must use one
     * client id: another one has rows of its own.
     *
     * @param \PDO                           $connection is in the error mode of exceptions, outside of a transaction
     * @param Consumer|string                $consumer   the consumer, or its client id
     * @param callable(\PDO, Record): mixed  $effect     uses the connection only
     *
     * @return bool whether the effect ran; false: it has run for this record before
     */
    function applyOnce(\PDO $connection, Consumer|string $consumer, Record $record, callable $effect): bool
    {
        $clientId = $consumer instanceof Consumer ? $consumer->clientId : $consumer;

        return (new Applied($connection))->once($clientId, $record, $effect);
    }
}
