// SPDX-License-Identifier: Apache-2.0

// run WAY CLIENT_ID CONCURRENCY reads records that say what to do with them, and writes what it did as lines of JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	sidecar "github.com/kinesis-sidecar/kinesis-sidecar/client-stubs/go"
)

// Shorter than the slow records take.
const ackDeadline = 2 * time.Second

// The data of a record.
type task struct {
	N     int    `json:"n"`
	Do    string `json:"do"`
	Times int    `json:"times"`
	Ms    int    `json:"ms"`
}

type line struct {
	N       int    `json:"n"`
	Attempt int    `json:"attempt"`
	At      string `json:"at"`
	Outcome string `json:"outcome,omitempty"`
}

var (
	errLeft   = errors.New("leave the loop")
	errRaised = errors.New("raise out of the loop")
)

func say(n int, record *sidecar.Record, at, outcome string) {
	write(line{n, record.Attempt, at, outcome})
}

// Writes a line at once: handlers run side by side.
func write(value any) {
	text, _ := json.Marshal(value)
	os.Stdout.Write(append(text, '\n'))
}

// Does what the record says. The error is the failure of the record, or errLeft or errRaised if a loop is to be left.
func handle(record *sidecar.Record, inLoop bool) error {
	var task task
	if err := record.JSON(&task); err != nil {
		return err
	}
	say(task.N, record, "begin", "")
	outcome := "ack"
	var err error
	switch {
	case task.Do == "slow":
		time.Sleep(time.Duration(task.Ms) * time.Millisecond)
	case task.Do == "dead_letter":
		outcome = "dead_letter"
		record.DeadLetter(fmt.Sprintf("asked %d", task.N))
	case task.Do == "drop":
		outcome = "drop"
		record.Drop()
	case task.Do == "break" && record.Attempt == 1 && inLoop:
		say(task.N, record, "break", "")
		return errLeft
	case task.Do == "raise" && record.Attempt == 1 && inLoop:
		say(task.N, record, "raise", "")
		return errRaised
	case task.Do == "fail" && record.Attempt <= task.Times, task.Do == "raise" && record.Attempt == 1:
		outcome, err = "retry", fmt.Errorf("fail %d", task.N)
	}
	say(task.N, record, "end", outcome)
	return err
}

func run(ctx context.Context, consumer *sidecar.Consumer, concurrency int) error {
	return consumer.Run(ctx, func(_ context.Context, record *sidecar.Record) error {
		return handle(record, false)
	}, sidecar.Concurrency(concurrency))
}

// Handles a record of a loop. Returns an error if the loop is to be left.
func handleInLoop(record *sidecar.Record) error {
	err := handle(record, true)
	if err == errLeft || err == errRaised {
		return err
	}
	if err != nil {
		record.Retry(0, err.Error())
	}
	return nil
}

func each(ctx context.Context, consumer *sidecar.Consumer) error {
	for record, err := range consumer.Records(ctx) {
		if err != nil {
			return err
		}
		if err := handleInLoop(record); err != nil {
			return err
		}
	}
	return nil
}

func batches(ctx context.Context, consumer *sidecar.Consumer) error {
	for batch, err := range consumer.Batches(ctx, 100, 200*time.Millisecond) {
		if err != nil {
			return err
		}
		for _, record := range batch.Records {
			if err := handleInLoop(record); err != nil {
				return err
			}
		}
	}
	return nil
}

func race(ctx context.Context, consumer *sidecar.Consumer) error {
	var count atomic.Int64
	return consumer.Run(ctx, func(context.Context, *sidecar.Record) error {
		if n := count.Add(1); n%1000 == 0 {
			fmt.Println(n)
		}
		return nil
	})
}

func read(way, clientID string, concurrency int) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	consumer := sidecar.New(clientID, sidecar.AckDeadline(ackDeadline))
	if way == "race" {
		consumer = sidecar.New(clientID, sidecar.MaxInFlight(10000))
	}
	defer consumer.Close()
	switch way {
	case "run":
		return run(ctx, consumer, concurrency)
	case "each":
		return each(ctx, consumer)
	case "batches":
		return batches(ctx, consumer)
	case "race":
		return race(ctx, consumer)
	}
	return fmt.Errorf("WAY must be run, each, batches or race, got %q", way)
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: run WAY CLIENT_ID CONCURRENCY")
		os.Exit(2)
	}
	concurrency, err := strconv.Atoi(os.Args[3])
	if err == nil {
		err = read(os.Args[1], os.Args[2], concurrency)
	}
	switch {
	case errors.Is(err, sidecar.ErrSessionTakenOver):
		write(map[string]string{"at": "taken_over"})
		os.Exit(3)
	case err == nil:
		write(map[string]string{"at": "stopped"})
	case err != errLeft && err != errRaised:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
