// SPDX-License-Identifier: Apache-2.0

// Package sidecar reads records of a Kinesis stream from kinesis-sidecar and acknowledges them.
//
//	consumer := sidecar.New("orders")
//	err := consumer.Run(ctx, func(ctx context.Context, record *sidecar.Record) error {
//		return save(ctx, record.Data)
//	}, sidecar.Concurrency(16))
//
// [Consumer.Run] calls a handler, [Consumer.Records] and [Consumer.Batches] are iterators. Delivery is at least once:
// a record that is not acknowledged is redelivered, to this consumer or to another one.
//
// The package finds the sidecar by the environment variable KINESIS_SIDECAR_URL, http://127.0.0.1:8990 by default, and
// the bearer token by KINESIS_SIDECAR_TOKEN_FILE.
package sidecar
