// SPDX-License-Identifier: Apache-2.0

// Package applyonce tests the package of this name with SQLite. It is a module of its own, so that the client package
// has no dependency.
package applyonce

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	sidecar "github.com/kinesis-sidecar/kinesis-sidecar/client-stubs/go"
	"github.com/kinesis-sidecar/kinesis-sidecar/client-stubs/go/applyonce"
	"github.com/kinesis-sidecar/kinesis-sidecar/client-stubs/go/sidecartest"
	_ "modernc.org/sqlite"
)

func openDatabase(t *testing.T) *sql.DB {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "app.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := applyonce.CreateTable(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE totals (key TEXT PRIMARY KEY, total INTEGER)"); err != nil {
		t.Fatal(err)
	}
	return db
}

func total(t *testing.T, db *sql.DB, key string) (sum int) {
	t.Helper()
	if err := db.QueryRow("SELECT coalesce(sum(total), 0) FROM totals WHERE key = ?", key).Scan(&sum); err != nil {
		t.Fatal(err)
	}
	return sum
}

func add(ctx context.Context, db *sql.DB, record *sidecar.Record) (bool, error) {
	return applyonce.Apply(ctx, db, applyonce.SQLite, "test", record, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO totals VALUES (?, 1)
			ON CONFLICT (key) DO UPDATE SET total = total + 1`, record.PartitionKey)
		return err
	})
}

func TestRecord_that_is_redelivered_after_its_effect_has_no_further_effect(t *testing.T) {
	db := openDatabase(t)
	fake := sidecartest.New()
	for range 10 {
		fake.Put("a", nil)
	}
	refused := 0

	err := fake.Consumer("test").Run(fake.UntilSettled(t.Context()), func(ctx context.Context, record *sidecar.Record) error {
		applied, err := add(ctx, db, record)
		if err == nil && !applied {
			refused++
		}
		if record.Attempt == 1 && record.SequenceNumber == "4" {
			return errors.New("fails after the commit")
		}
		return err
	})

	if err != nil || total(t, db, "a") != 10 || refused != 1 {
		t.Errorf("got %v, total %d, %d refused", err, total(t, db, "a"), refused)
	}
}

func TestEffect_that_fails_leaves_nothing(t *testing.T) {
	db := openDatabase(t)
	record := &sidecar.Record{ShardID: "shard", SequenceNumber: "1", PartitionKey: "a"}
	failure := errors.New("no")

	applied, err := applyonce.Apply(t.Context(), db, applyonce.SQLite, "test", record, func(tx *sql.Tx) error {
		if _, err := tx.Exec("INSERT INTO totals VALUES ('a', 1)"); err != nil {
			t.Fatal(err)
		}
		return failure
	})

	if applied || err != failure || total(t, db, "a") != 0 {
		t.Errorf("got %v, %v, total %d", applied, err, total(t, db, "a"))
	}
	if applied, err := add(t.Context(), db, record); !applied || err != nil {
		t.Errorf("second attempt: got %v, %v", applied, err)
	}
}
