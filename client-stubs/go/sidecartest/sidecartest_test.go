// SPDX-License-Identifier: Apache-2.0

package sidecartest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	sidecar "github.com/kinesis-sidecar/kinesis-sidecar/client-stubs/go"
	"github.com/kinesis-sidecar/kinesis-sidecar/client-stubs/go/sidecartest"
)

func Example() {
	fake := sidecartest.New()
	fake.Put("customer-1", []byte("12"))
	fake.Put("customer-2", []byte("not a number"))

	handler := func(ctx context.Context, record *sidecar.Record) error {
		var total int
		if err := record.JSON(&total); err != nil {
			return sidecar.DeadLetter(errors.New("no total"))
		}
		return nil
	}
	err := fake.Consumer("orders").Run(fake.UntilSettled(context.Background()), handler)

	fmt.Println(err)
	for _, outcome := range fake.Outcomes() {
		fmt.Printf("%s: %s %q\n", outcome.PartitionKey, outcome.Outcome, outcome.Reason)
	}
	// Output:
	// <nil>
	// customer-1: ack ""
	// customer-2: dead_letter "no total"
}

// Fails the first attempt of every third record.
func flaky(record *sidecar.Record, n int) error {
	if n%3 == 0 && record.Attempt == 1 {
		return fmt.Errorf("fail %d", n)
	}
	return nil
}

func put(fake *sidecartest.Sidecar, records, keys int) {
	for n := range records {
		fake.Put(fmt.Sprintf("key-%d", n%keys), fmt.Append(nil, n))
	}
}

func number(t *testing.T, record *sidecar.Record) (n int) {
	t.Helper()
	if err := record.JSON(&n); err != nil {
		t.Error(err)
	}
	return n
}

func checkAllAcknowledged(t *testing.T, fake *sidecartest.Sidecar) {
	t.Helper()
	for i, outcome := range fake.Outcomes() {
		if outcome.Outcome != "ack" {
			t.Errorf("record %d: got outcome %q, want ack", i, outcome.Outcome)
		}
	}
}

func TestRun_keeps_the_order_of_each_key_when_handlers_fail(t *testing.T) {
	fake := sidecartest.New()
	put(fake, 600, 7)
	var mu sync.Mutex
	handled := map[string][]int{}
	handler := func(_ context.Context, record *sidecar.Record) error {
		n := number(t, record)
		if err := flaky(record, n); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		handled[record.PartitionKey] = append(handled[record.PartitionKey], n)
		return nil
	}

	err := fake.Consumer("test").Run(fake.UntilSettled(t.Context()), handler, sidecar.Concurrency(8))

	if err != nil {
		t.Fatal(err)
	}
	checkAllAcknowledged(t, fake)
	for key, numbers := range handled {
		if !slices.IsSorted(numbers) {
			t.Errorf("%s: handled in the order %v", key, numbers)
		}
	}
}

func TestRecords_keeps_the_order_of_a_shard_when_records_are_retried(t *testing.T) {
	fake := sidecartest.New()
	put(fake, 200, 5)
	consumer := fake.Consumer("test")
	defer consumer.Close()
	var handled []int

	for record, err := range consumer.Records(fake.UntilSettled(t.Context())) {
		if err != nil {
			t.Fatal(err)
		}
		n := number(t, record)
		if err := flaky(record, n); err != nil {
			record.Retry(0, err.Error())
			continue
		}
		handled = append(handled, n)
	}

	checkAllAcknowledged(t, fake)
	if len(handled) != 200 || !slices.IsSorted(handled) {
		t.Errorf("handled %d records in the order %v", len(handled), handled)
	}
}

func TestRun_makes_a_dead_letter_of_a_record_that_always_fails(t *testing.T) {
	fake := sidecartest.New()
	put(fake, 1, 1)

	err := fake.Consumer("test").Run(fake.UntilSettled(t.Context()),
		func(context.Context, *sidecar.Record) error { return errors.New("always") })

	outcome := fake.Outcomes()[0]
	if err != nil || outcome.Outcome != "dead_letter" || outcome.Reason != "always" || outcome.Attempts != sidecartest.MaxAttempts {
		t.Errorf("got %v and %+v", err, outcome)
	}
}
