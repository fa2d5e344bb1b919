// SPDX-License-Identifier: Apache-2.0

// A member by the fork of kinsumer at snowplow-devops: each record is checkpointed when it is done. See ../fleet.py.
package main

import (
	"context"
	"log"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/twitchscience/kinsumer"

	"interop/golang"
)

func main() {
	member := golang.Read()
	settings := kinsumer.NewConfig().
		WithManualCheckpointing(true).
		WithUseListShardsForKinesisStreamReady(true).
		WithThrottleDelay(member.Span("throttle_ms", 250)).
		WithCommitFrequency(member.Span("commit_ms", 500)).
		WithShardCheckFrequency(member.Span("check_ms", 1000)).
		WithLeaderActionFrequency(member.Span("leader_ms", 1000)).
		WithDynamoWaiterDelay(member.Span("waiter_ms", 200))
	clients, err := config.LoadDefaultConfig(context.Background(), config.WithRegion("us-east-1"))
	if err != nil {
		log.Fatal(err)
	}
	running, err := kinsumer.NewWithInterfaces(
		kinesis.NewFromConfig(clients, func(o *kinesis.Options) { o.BaseEndpoint = aws.String(member.KinesisURL) }),
		dynamodb.NewFromConfig(clients, func(o *dynamodb.Options) { o.BaseEndpoint = aws.String(member.DynamoURL) }),
		member.Stream, member.Application, member.Worker, member.Worker, settings)
	if err == nil {
		err = running.CreateRequiredTables()
	}
	if err == nil {
		err = running.Run()
	}
	if err != nil {
		log.Fatal(err)
	}
	member.Tell(golang.Entry{Event: "started"})
	left := make(chan bool) // It signs off after the last record.
	go func() {
		golang.WaitForStop()
		running.Stop()
		close(left)
	}()
	for {
		record, done, err := running.NextRecordWithCheckpointer()
		if err != nil {
			member.Tell(golang.Entry{Event: "failed", Reason: err.Error()})
			log.Fatal(err)
		}
		if record == nil {
			break
		}
		member.Tell(golang.Entry{Event: "record", Sequence: aws.ToString(record.SequenceNumber),
			Key: aws.ToString(record.PartitionKey), Data: string(record.Data)})
		member.Work()
		done()
	}
	<-left
	member.Tell(golang.Entry{Event: "stopped"})
}
