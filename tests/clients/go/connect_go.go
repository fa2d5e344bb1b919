// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"

	v1 "clients/gen/kinesis_sidecar/v1"
	v1connect "clients/gen/kinesis_sidecar/v1/kinesissidecarv1connect"
	"connectrpc.com/connect"
)

// The protocol of Connect over HTTP/2.
type connectRoad struct {
	transport *http.Transport
	client    v1connect.ConsumerClient
	events    *connect.ServerStreamForClient[v1.StreamEvent]
	up        *connect.BidiStreamForClient[v1.StreamRequest, v1.StreamEvent]
	cancel    context.CancelFunc
}

func connectGo(address, way string) road {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	road := connectRoad{transport: &http.Transport{Protocols: protocols}}
	road.client = v1connect.NewConsumerClient(&http.Client{Transport: road.transport}, "http://"+address)
	context, cancel := context.WithCancel(context.Background())
	road.cancel = cancel
	if way == "stream" {
		road.up = road.client.Stream(context)
		must(road.say(&v1.StreamRequest{Request: &v1.StreamRequest_Open{Open: open}}))
		return &road
	}
	var err error
	road.events, err = road.client.Watch(context, connect.NewRequest(open))
	must(err)
	return &road
}

func (r *connectRoad) receive() (*v1.StreamEvent, error) {
	if r.up != nil {
		return r.up.Receive()
	}
	if !r.events.Receive() {
		return nil, fmt.Errorf("the stream ended: %w", r.events.Err())
	}
	return r.events.Msg(), nil
}

func (r *connectRoad) say(request *v1.StreamRequest) error {
	return r.up.Send(request)
}

func (r *connectRoad) settle(request *v1.SettleRequest) (*v1.SettleResponse, error) {
	answer, err := r.client.Settle(context.Background(), connect.NewRequest(request))
	if err != nil {
		return nil, err
	}
	return answer.Msg, nil
}

func (r *connectRoad) hangUp() {
	r.cancel()
	r.transport.CloseIdleConnections()
}
