// SPDX-License-Identifier: Apache-2.0

// A member by kinsumer of twitchscience: it hands out data alone, and checkpoints what it handed out. See ../fleet.py.
package main

import (
	"log"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/aws/session"
	"github.com/aws/aws-sdk-go/service/dynamodb"
	"github.com/aws/aws-sdk-go/service/kinesis"
	"github.com/twitchscience/kinsumer"

	"interop/golang"
)

func main() {
	member := golang.Read()
	settings := kinsumer.NewConfig().
		WithThrottleDelay(member.Span("throttle_ms", 250)).
		WithCommitFrequency(member.Span("commit_ms", 500)).
		WithShardCheckFrequency(member.Span("check_ms", 1000)).
		WithLeaderActionFrequency(member.Span("leader_ms", 1000)).
		WithDynamoWaiterDelay(member.Span("waiter_ms", 200))
	region := aws.NewConfig().WithRegion("us-east-1")
	clients := session.Must(session.NewSession(region))
	running, err := kinsumer.NewWithInterfaces(
		kinesis.New(clients, region.Copy().WithEndpoint(member.KinesisURL)),
		dynamodb.New(clients, region.Copy().WithEndpoint(member.DynamoURL)),
		member.Stream, member.Application, member.Worker, settings)
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
		data, err := running.Next()
		if err != nil {
			member.Tell(golang.Entry{Event: "failed", Reason: err.Error()})
			log.Fatal(err)
		}
		if data == nil {
			break
		}
		member.Tell(golang.Entry{Event: "record", Data: string(data)})
		member.Work()
	}
	<-left
	member.Tell(golang.Entry{Event: "stopped"})
}
