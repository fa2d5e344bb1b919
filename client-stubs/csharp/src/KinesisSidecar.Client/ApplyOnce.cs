// SPDX-License-Identifier: Apache-2.0
using System;
using System.Data;
using System.Data.Common;
using System.Threading;
using System.Threading.Tasks;

namespace KinesisSidecar.Client
{
    /// <summary>
    /// Effects at most once per record, in a database of the app. The sidecar delivers at least once. The position of
    /// the record is stored in the transaction of its effect: a redelivery finds it there and has no effect. The table
    /// has a row for each record, so it serves every ordering and concurrency, with one connection for each handler.
    /// </summary>
    /// <remarks>
    /// If two processes apply the same record at the same time, the primary key refuses one of them: its call fails,
    /// and its effect is rolled back.
    /// </remarks>
    public static class ApplyOnce
    {
        /// <summary>The statement of <see cref="CreateTable"/>, for a schema migration.</summary>
        public const string CreateTableStatement =
            "CREATE TABLE IF NOT EXISTS kinesis_sidecar_applied" +
            " (consumer VARCHAR(128) NOT NULL, stream VARCHAR(255) NOT NULL, shard_id VARCHAR(128) NOT NULL," +
            " sequence_number VARCHAR(129) NOT NULL, sub_sequence_number BIGINT NOT NULL, epoch BIGINT NOT NULL," +
            " applied_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP," +
            " PRIMARY KEY (consumer, stream, shard_id, sequence_number, sub_sequence_number))";

        private const string Find =
            "SELECT 1 FROM kinesis_sidecar_applied" +
            " WHERE consumer = @consumer AND stream = @stream AND shard_id = @shard_id" +
            " AND sequence_number = @sequence_number AND sub_sequence_number = @sub_sequence_number";

        private const string Insert =
            "INSERT INTO kinesis_sidecar_applied" +
            " (consumer, stream, shard_id, sequence_number, sub_sequence_number, epoch)" +
            " VALUES (@consumer, @stream, @shard_id, @sequence_number, @sub_sequence_number, @epoch)";

        private const string Forget =
            "DELETE FROM kinesis_sidecar_applied WHERE consumer = @consumer AND applied_at < @instant";

        /// <summary>Creates the table of positions if it does not exist: in SQLite, PostgreSQL and MySQL.</summary>
        /// <param name="connection">An open connection.</param>
        public static void CreateTable(IDbConnection connection)
        {
            using (var command = connection.CreateCommand())
            {
                command.CommandText = CreateTableStatement;
                command.ExecuteNonQuery();
            }
        }

        /// <summary>Calls the effect and commits, or does nothing if the record was applied before.</summary>
        /// <param name="connection">An open connection without a transaction.</param>
        /// <param name="consumer">The name that the effects belong to, the same in all processes of the app.</param>
        /// <param name="record">The record.</param>
        /// <param name="effect">Changes the database in the transaction, and does not commit. If it fails, all is
        /// rolled back.</param>
        /// <returns>Whether the effect was committed now.</returns>
        public static bool Apply(
            IDbConnection connection, string consumer, Record record, Action<IDbTransaction> effect)
        {
            using (var transaction = connection.BeginTransaction())
            {
                using (var find = Command(transaction, Find, consumer, record))
                {
                    if (find.ExecuteScalar() != null)
                        return false;
                }
                using (var insert = Command(transaction, Insert, consumer, record))
                {
                    Add(insert, "@epoch", record.Epoch);
                    insert.ExecuteNonQuery();
                }
                effect(transaction);
                transaction.Commit();
                return true;
            }
        }

        /// <summary>Does the same as <see cref="Apply"/>, asynchronously.</summary>
        /// <param name="connection">An open connection without a transaction.</param>
        /// <param name="consumer">The name that the effects belong to, the same in all processes of the app.</param>
        /// <param name="record">The record.</param>
        /// <param name="effect">Changes the database in the transaction, and does not commit. If it fails, all is
        /// rolled back.</param>
        /// <param name="cancellationToken">Cancels the commands.</param>
        /// <returns>Whether the effect was committed now.</returns>
        public static async Task<bool> ApplyAsync(
            DbConnection connection,
            string consumer,
            Record record,
            Func<DbTransaction, Task> effect,
            CancellationToken cancellationToken = default)
        {
            using (var transaction = connection.BeginTransaction())
            {
                using (var find = (DbCommand)Command(transaction, Find, consumer, record))
                {
                    if (await find.ExecuteScalarAsync(cancellationToken).ConfigureAwait(false) != null)
                        return false;
                }
                using (var insert = (DbCommand)Command(transaction, Insert, consumer, record))
                {
                    Add(insert, "@epoch", record.Epoch);
                    await insert.ExecuteNonQueryAsync(cancellationToken).ConfigureAwait(false);
                }
                await effect(transaction).ConfigureAwait(false);
                transaction.Commit();
                return true;
            }
        }

        /// <summary>Removes old positions. Records that can be redelivered must be younger: the retention period of the
        /// stream is a safe age, or longer if dead letters are redriven.</summary>
        /// <param name="connection">An open connection.</param>
        /// <param name="consumer">The name that the effects belong to.</param>
        /// <param name="instant">In UTC. Positions that were stored before it are removed.</param>
        /// <returns>How many were removed.</returns>
        public static int ForgetBefore(IDbConnection connection, string consumer, DateTime instant)
        {
            using (var command = connection.CreateCommand())
            {
                command.CommandText = Forget;
                Add(command, "@consumer", consumer);
                Add(command, "@instant", instant);
                return command.ExecuteNonQuery();
            }
        }

        private static IDbCommand Command(IDbTransaction transaction, string text, string consumer, Record record)
        {
            var command = transaction.Connection.CreateCommand();
            command.Transaction = transaction;
            command.CommandText = text;
            Add(command, "@consumer", consumer);
            Add(command, "@stream", record.Stream);
            Add(command, "@shard_id", record.ShardId);
            Add(command, "@sequence_number", record.SequenceNumber);
            Add(command, "@sub_sequence_number", record.SubSequenceNumber);
            return command;
        }

        private static void Add(IDbCommand command, string name, object value)
        {
            var parameter = command.CreateParameter();
            parameter.ParameterName = name;
            parameter.Value = value;
            command.Parameters.Add(parameter);
        }
    }
}
