// SPDX-License-Identifier: Apache-2.0

// A member by vmware-go-kcl: it checkpoints after each batch. consumer is whose records it gets by
// fan-out, without one it polls. See ../fleet.py.
package main

import (
	"log"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/aws/credentials"
	"github.com/vmware/vmware-go-kcl/clientlibrary/config"
	"github.com/vmware/vmware-go-kcl/clientlibrary/interfaces"
	"github.com/vmware/vmware-go-kcl/clientlibrary/worker"

	"interop/golang"
)

type processor struct {
	member *golang.Member
	shard  string
}

func (p *processor) Initialize(input *interfaces.InitializationInput) {
	p.shard = input.ShardId
	p.member.Tell(golang.Entry{Event: "began", Shard: p.shard,
		Sequence: aws.StringValue(input.ExtendedSequenceNumber.SequenceNumber)})
}

func (p *processor) ProcessRecords(input *interfaces.ProcessRecordsInput) {
	if len(input.Records) == 0 {
		return
	}
	for _, record := range input.Records {
		p.member.Tell(golang.Entry{Event: "record", Shard: p.shard, Sequence: aws.StringValue(record.SequenceNumber),
			Key: aws.StringValue(record.PartitionKey), Data: string(record.Data)})
		p.member.Work()
	}
	p.save(input.Checkpointer, input.Records[len(input.Records)-1].SequenceNumber)
}

func (p *processor) Shutdown(input *interfaces.ShutdownInput) {
	reason := aws.StringValue(interfaces.ShutdownReasonMessage(input.ShutdownReason))
	p.member.Tell(golang.Entry{Event: "ended", Shard: p.shard, Reason: reason})
	if input.ShutdownReason == interfaces.TERMINATE {
		p.save(input.Checkpointer, nil)
	}
}

func (p *processor) save(checkpointer interfaces.IRecordProcessorCheckpointer, sequence *string) {
	entry := golang.Entry{Event: "saved", Shard: p.shard, Sequence: "SHARD_END"}
	if sequence != nil {
		entry.Sequence = *sequence
	}
	if err := checkpointer.Checkpoint(sequence); err != nil {
		entry.Event, entry.Reason = "unsaved", err.Error()
	}
	p.member.Tell(entry)
}

type factory struct{ member *golang.Member }

func (f factory) CreateProcessor() interfaces.IRecordProcessor {
	return &processor{member: f.member}
}

func main() {
	member := golang.Read()
	lease := member.Number("lease_ms", 10000)
	known := credentials.NewEnvCredentials()
	settings := config.NewKinesisClientLibConfigWithCredentials(member.Application, member.Stream, "us-east-1",
		member.Worker, known, known).
		WithKinesisEndpoint(member.KinesisURL).
		WithDynamoDBEndpoint(member.DynamoURL).
		WithInitialPositionInStream(config.TRIM_HORIZON).
		WithFailoverTimeMillis(lease).
		WithLeaseRefreshPeriodMillis(lease / 2).
		WithShardSyncIntervalMillis(member.Number("sync_ms", 1000)).
		WithMaxRecords(member.Number("max_records", 100)).
		WithIdleTimeBetweenReadsInMillis(member.Number("idle_ms", 500)).
		WithMaxLeasesForWorker(member.Number("max_leases", 1000)).
		WithLeaseStealing(member.Number("stealing", 0) != 0).
		WithLeaseSyncingIntervalMillis(member.Number("sync_ms", 1000))
	if consumer := member.Text("consumer"); consumer != "" {
		settings.WithEnhancedFanOutConsumerName(consumer)
	}
	settings.ParentShardPollIntervalMillis = member.Number("sync_ms", 1000)
	settings.LeaseStealingClaimTimeoutMillis = member.Number("claim_ms", 120000)

	running := worker.NewWorker(factory{member}, settings)
	if err := running.Start(); err != nil {
		log.Fatal(err)
	}
	member.Tell(golang.Entry{Event: "started"})
	golang.WaitForStop()
	running.Shutdown()
	member.Tell(golang.Entry{Event: "stopped"})
}
