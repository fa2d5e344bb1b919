// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	v1 "clients/gen/kinesis_sidecar/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

type grpcRoad struct {
	connection *grpc.ClientConn
	client     v1.ConsumerClient
	events     grpc.ServerStreamingClient[v1.StreamEvent]
	up         grpc.BidiStreamingClient[v1.StreamRequest, v1.StreamEvent]
}

func grpcGo(address, way string) road {
	var road grpcRoad
	var err error
	road.connection, err = grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(err)
	road.client = v1.NewConsumerClient(road.connection)
	if way == "stream" {
		road.up, err = road.client.Stream(context.Background())
		must(err)
		must(road.say(&v1.StreamRequest{Request: &v1.StreamRequest_Open{Open: open}}))
	} else {
		road.events, err = road.client.Watch(context.Background(), open)
		must(err)
	}
	return &road
}

func (r *grpcRoad) receive() (*v1.StreamEvent, error) {
	if r.up != nil {
		return r.up.Recv()
	}
	return r.events.Recv()
}

func (r *grpcRoad) say(request *v1.StreamRequest) error {
	return r.up.Send(request)
}

func (r *grpcRoad) settle(request *v1.SettleRequest) (*v1.SettleResponse, error) {
	return r.client.Settle(context.Background(), request)
}

func (r *grpcRoad) hangUp() {
	r.connection.Close()
}
