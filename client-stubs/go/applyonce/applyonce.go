// SPDX-License-Identifier: Apache-2.0

// Package applyonce applies the effect of a record to a database at most once.
//
// Delivery is at least once: a handler may get a record again after it has written its effect. [Apply] writes the effect
// and the position of the record in one transaction, so that the second delivery finds the position and has no effect.
//
//	consumer.Run(ctx, func(ctx context.Context, record *sidecar.Record) error {
//		_, err := applyonce.Apply(ctx, db, applyonce.PostgreSQL, "orders", record, func(tx *sql.Tx) error {
//			_, err := tx.ExecContext(ctx, "INSERT INTO orders (body) VALUES ($1)", record.Data)
//			return err
//		})
//		return err
//	})
package applyonce

import (
	"context"
	"database/sql"
	"fmt"

	sidecar "github.com/kinesis-sidecar/kinesis-sidecar/client-stubs/go"
)

// Dialect is the SQL of a database.
type Dialect int

const (
	SQLite Dialect = iota
	PostgreSQL
	MySQL
)

// Table is the table of positions. A row may be deleted when its record cannot be delivered any more, for example when
// applied_at is older than the retention of the stream.
const Table = "kinesis_sidecar_applied"

// CreateTable makes the table if it is not there.
func CreateTable(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS `+Table+` (
		consumer            VARCHAR(64)  NOT NULL,
		shard_id            VARCHAR(128) NOT NULL,
		sequence_number     VARCHAR(128) NOT NULL,
		sub_sequence_number BIGINT       NOT NULL,
		epoch               BIGINT       NOT NULL,
		applied_at          TIMESTAMP    NOT NULL DEFAULT CURRENT_TIMESTAMP,
		PRIMARY KEY (consumer, shard_id, sequence_number, sub_sequence_number))`)
	return err
}

// Apply runs the effect in a transaction, unless the effect of the record was applied before, and returns whether it did
// so. If the effect returns an error, nothing is written. The consumer is the name of the application whose effect it is.
func Apply(ctx context.Context, db *sql.DB, dialect Dialect, consumer string, record *sidecar.Record,
	effect func(*sql.Tx) error) (bool, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	// After a commit this does nothing.
	defer tx.Rollback()
	isFirst, err := enter(ctx, tx, dialect, consumer, record)
	if err != nil || !isFirst {
		return false, err
	}
	if err := effect(tx); err != nil {
		return false, err
	}
	if err := tx.Commit(); err != nil {
		return false, err
	}
	return true, nil
}

// Stores the position. The primary key lets one of several transactions store it; the others wait for its end.
func enter(ctx context.Context, tx *sql.Tx, dialect Dialect, consumer string, record *sidecar.Record) (bool, error) {
	result, err := tx.ExecContext(ctx, dialect.insert(), consumer, record.ShardID, record.SequenceNumber,
		record.SubSequenceNumber, int64(record.Epoch))
	if err != nil {
		return false, fmt.Errorf("applyonce: cannot store the position of the record: %w", err)
	}
	rows, err := result.RowsAffected()
	return rows == 1, err
}

func (d Dialect) insert() string {
	const columns = Table + " (consumer, shard_id, sequence_number, sub_sequence_number, epoch)"
	switch d {
	case MySQL:
		return "INSERT IGNORE INTO " + columns + " VALUES (?, ?, ?, ?, ?)"
	case PostgreSQL:
		return "INSERT INTO " + columns + " VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING"
	}
	return "INSERT INTO " + columns + " VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
}
