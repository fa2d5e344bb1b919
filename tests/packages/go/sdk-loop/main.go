// SPDX-License-Identifier: Apache-2.0

// sdk COUNT reads the stream demo by the polling loop of the AWS SDK, to compare its CPU time with that of the package.
// The endpoint is AWS_ENDPOINT_URL_KINESIS. The number of records so far is printed after every 1,000 records.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

const (
	stream       = "demo"
	recordsMax   = 10000           // Of one GetRecords request.
	pollInterval = time.Second / 5 // Kinesis accepts 5 GetRecords requests per shard and second.
)

// Counts the records of all shards, and stops the readers after the last one.
type counter struct {
	records atomic.Int64
	bytes   atomic.Uint64
	wanted  int64
	stop    context.CancelFunc
}

func (c *counter) add(record types.Record) {
	c.bytes.Add(uint64(len(record.Data)))
	n := c.records.Add(1)
	if n%1000 == 0 {
		fmt.Println(n)
	}
	if n == c.wanted {
		c.stop()
	}
}

// Reads a shard from its oldest record on, until ctx is done or the shard ends.
func readShard(ctx context.Context, client *kinesis.Client, shardID *string, count *counter) error {
	first, err := client.GetShardIterator(ctx, &kinesis.GetShardIteratorInput{
		StreamName: aws.String(stream), ShardId: shardID, ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
	})
	if err != nil {
		return err
	}
	for iterator := first.ShardIterator; iterator != nil; {
		got, err := client.GetRecords(ctx, &kinesis.GetRecordsInput{ShardIterator: iterator, Limit: aws.Int32(recordsMax)})
		if err != nil {
			return err
		}
		for _, record := range got.Records {
			count.add(record)
		}
		iterator = got.NextShardIterator
		if len(got.Records) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollInterval):
		}
	}
	return nil
}

func read(wanted int64) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	settings, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	client := kinesis.NewFromConfig(settings)
	list, err := client.ListShards(ctx, &kinesis.ListShardsInput{StreamName: aws.String(stream)})
	if err != nil {
		return err
	}
	count := &counter{wanted: wanted, stop: stop}
	var readers sync.WaitGroup
	for _, shard := range list.Shards {
		readers.Go(func() {
			if err := readShard(ctx, client, shard.ShardId, count); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, err)
				stop()
			}
		})
	}
	readers.Wait()
	if n := count.records.Load(); n < wanted {
		return fmt.Errorf("%d records were read, want %d", n, wanted)
	}
	return nil
}

func main() {
	wanted := int64(0)
	if len(os.Args) == 2 {
		wanted, _ = strconv.ParseInt(os.Args[1], 10, 64)
	}
	if wanted < 1 {
		fmt.Fprintln(os.Stderr, "usage: sdk COUNT")
		os.Exit(2)
	}
	if err := read(wanted); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
