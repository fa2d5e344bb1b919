// SPDX-License-Identifier: Apache-2.0
package io.github.kinesissidecar;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.kinesissidecar.testing.FakeConsumer;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class ApplyOnceTest {
    private Connection database;
    private SidecarRecord record;

    @BeforeEach
    void begin() throws SQLException {
        database = DriverManager.getConnection("jdbc:sqlite::memory:");
        execute(database, "CREATE TABLE orders (id INTEGER)");
        ApplyOnce.createTable(database);
        record = new FakeConsumer().add("k", "1");
    }

    @AfterEach
    void end() throws SQLException {
        database.close();
    }

    private static void execute(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    private int orders() throws SQLException {
        try (Statement statement = database.createStatement();
                ResultSet rows = statement.executeQuery("SELECT COUNT(*) FROM orders")) {
            return rows.getInt(1);
        }
    }

    private boolean apply(String consumer) throws Exception {
        return ApplyOnce.apply(database, consumer, record,
                connection -> execute(connection, "INSERT INTO orders VALUES (1)"));
    }

    @Test
    void effect_ofARedeliveredRecord_runsOnce() throws Exception {
        assertTrue(apply("billing"));
        assertFalse(apply("billing"));
        assertEquals(1, orders());
        assertTrue(database.getAutoCommit());
    }

    @Test
    void effect_ofAnotherConsumer_runs() throws Exception {
        assertTrue(apply("billing"));
        assertTrue(apply("shipping"));
        assertEquals(2, orders());
    }

    @Test
    void effect_thatFails_isRolledBackAndRunsAgain() throws Exception {
        assertThrows(IllegalStateException.class, () -> ApplyOnce.apply(database, "billing", record, connection -> {
            execute(connection, "INSERT INTO orders VALUES (1)");
            throw new IllegalStateException("fail");
        }));
        assertEquals(0, orders());
        assertTrue(apply("billing"));
        assertEquals(1, orders());
    }
}
