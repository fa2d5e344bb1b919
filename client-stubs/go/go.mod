module github.com/kinesis-sidecar/kinesis-sidecar/client-stubs/go

go 1.24
