// SPDX-License-Identifier: Apache-2.0

//go:build tools

// What makes Go of our protos: named here, so that go.mod says which.
package main

import (
	_ "connectrpc.com/connect/cmd/protoc-gen-connect-go"
	_ "google.golang.org/grpc/cmd/protoc-gen-go-grpc"
	_ "google.golang.org/protobuf/cmd/protoc-gen-go"
)
