// SPDX-License-Identifier: Apache-2.0
import type { KinesisRecord } from "./record.js";

/** What `applyOnce` needs of a database connection: the client of `pg` has it, as have others. */
export interface TransactionClient {
    query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
}

/** Creates the table of `applyOnce` in PostgreSQL. Rows older than the retention of the stream may be deleted. */
export const APPLIED_TABLE = `CREATE TABLE IF NOT EXISTS kinesis_sidecar_applied (
  consumer text NOT NULL,
  shard_id text NOT NULL,
  sequence_number numeric NOT NULL,
  sub_sequence_number bigint NOT NULL,
  epoch bigint NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (consumer, shard_id, sequence_number, sub_sequence_number)
)`;

const REMEMBER = `INSERT INTO kinesis_sidecar_applied (consumer, shard_id, sequence_number, sub_sequence_number, epoch)
VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING RETURNING 1`;

/**
 * Runs `effect` in a transaction of the app's database, at most once per record, however often the record is
 * delivered. Resolves with whether this call ran it. Needs the table of `APPLIED_TABLE`.
 *
 * @param connection One connection, not a pool: all statements belong to one transaction.
 * @param consumer Name under which the effect is remembered, for example the client id.
 * @param effect Makes all its changes with the connection that it gets.
 */
export async function applyOnce<Client extends TransactionClient>(
    connection: Client,
    consumer: string,
    record: KinesisRecord,
    effect: (connection: Client) => Promise<unknown>,
): Promise<boolean> {
    await connection.query("BEGIN");
    try {
        const { shardId, sequenceNumber, subSequenceNumber, epoch } = record;
        const { rows } = await connection.query(REMEMBER, [
            consumer,
            shardId,
            sequenceNumber,
            subSequenceNumber,
            epoch,
        ]);
        // Another transaction that has the row makes this statement wait, so two deliveries never both run the effect.
        const first = rows.length > 0;
        if (first) await effect(connection);
        await connection.query("COMMIT");
        return first;
    } catch (error) {
        await connection.query("ROLLBACK").catch(() => {});
        throw error;
    }
}
