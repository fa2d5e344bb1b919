// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/**
 * Runs an effect in a transaction of the app's database at most once per record. The position of the record is stored
 * in the same transaction, so a redelivery finds it. Acknowledge the record after it, as a handler that returns does.
 */
public final class ApplyOnce {
    /**
     * The statement that creates the table, for a schema migration. A row is needed as long as its record may be
     * redelivered: the retention of the stream, or longer if dead letters are redriven.
     */
    public static final String CREATE_TABLE = """
            CREATE TABLE IF NOT EXISTS kinesis_sidecar_applied (
                consumer VARCHAR(128) NOT NULL,
                shard_id VARCHAR(128) NOT NULL,
                sequence_number VARCHAR(40) NOT NULL,
                sub_sequence_number BIGINT NOT NULL,
                epoch BIGINT NOT NULL,
                PRIMARY KEY (consumer, shard_id, sequence_number, sub_sequence_number))""";

    private static final String FIND = "SELECT 1 FROM kinesis_sidecar_applied WHERE consumer = ? AND shard_id = ?"
            + " AND sequence_number = ? AND sub_sequence_number = ?";
    private static final String INSERT = "INSERT INTO kinesis_sidecar_applied"
            + " (consumer, shard_id, sequence_number, sub_sequence_number, epoch) VALUES (?, ?, ?, ?, ?)";

    private ApplyOnce() {
    }

    /** A change of the app's database. */
    @FunctionalInterface
    public interface Effect {
        /** Changes the database, without a commit. An exception rolls the transaction back. */
        void apply(Connection connection) throws Exception;
    }

    /** Creates the table if it does not exist. */
    public static void createTable(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(CREATE_TABLE);
        }
    }

    /**
     * Runs the effect, unless it was committed for this record before. Returns whether the effect was committed now.
     * After an exception nothing was committed. The connection has no open transaction. The consumer names what the
     * effects belong to, for example the client id without a number of the process. If two processes apply the same
     * record at the same time, the primary key refuses one of them: its call throws.
     */
    public static boolean apply(Connection connection, String consumer, SidecarRecord record, Effect effect)
            throws Exception {
        boolean autoCommit = connection.getAutoCommit();
        connection.setAutoCommit(false);
        try {
            boolean isNew = !isApplied(connection, consumer, record);
            if (isNew) {
                insert(connection, consumer, record);
                effect.apply(connection);
            }
            connection.commit();
            return isNew;
        } catch (Throwable failure) {
            connection.rollback();
            throw failure;
        } finally {
            connection.setAutoCommit(autoCommit);
        }
    }

    private static boolean isApplied(Connection connection, String consumer, SidecarRecord record) throws SQLException {
        try (PreparedStatement find = connection.prepareStatement(FIND)) {
            setPosition(find, consumer, record);
            try (ResultSet rows = find.executeQuery()) {
                return rows.next();
            }
        }
    }

    private static void insert(Connection connection, String consumer, SidecarRecord record) throws SQLException {
        try (PreparedStatement insert = connection.prepareStatement(INSERT)) {
            setPosition(insert, consumer, record);
            insert.setLong(5, record.epoch());
            insert.executeUpdate();
        }
    }

    private static void setPosition(PreparedStatement statement, String consumer, SidecarRecord record)
            throws SQLException {
        statement.setString(1, consumer);
        statement.setString(2, record.shardId());
        statement.setString(3, record.sequenceNumber());
        statement.setLong(4, record.subSequenceNumber());
    }
}
