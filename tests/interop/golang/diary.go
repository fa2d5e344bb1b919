// SPDX-License-Identifier: Apache-2.0

// Package golang is what the members in Go share: their command line, their diary, and how they are stopped.
// The forms of both are in ../fleet.py.
package golang

import (
	"encoding/hex"
	"encoding/json"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"
)

// Member is what the command line said.
type Member struct {
	Worker, Stream, Application string
	KinesisURL, DynamoURL       string
	settings                    map[string]string
}

// Entry is a line of the diary.
type Entry struct {
	At       float64 `json:"at"`
	Worker   string  `json:"worker"`
	Event    string  `json:"event"`
	Shard    string  `json:"shard,omitempty"`
	Sequence string  `json:"sequence,omitempty"`
	Key      string  `json:"key,omitempty"`
	Data     string  `json:"data,omitempty"`
	Reason   string  `json:"reason,omitempty"`
}

var (
	writing sync.Mutex
	stop    = make(chan os.Signal, 1)
)

// Read reads WORKER STREAM APPLICATION [NAME=VALUE..] and the two endpoints of the environment.
func Read() *Member {
	signal.Notify(stop, syscall.SIGTERM)
	if len(os.Args) < 4 {
		log.Fatal("usage: member WORKER STREAM APPLICATION [NAME=VALUE..]")
	}
	member := &Member{os.Args[1], os.Args[2], os.Args[3], os.Getenv("AWS_ENDPOINT_URL_KINESIS"),
		os.Getenv("AWS_ENDPOINT_URL_DYNAMODB"), map[string]string{}}
	for _, setting := range os.Args[4:] {
		name, value, _ := strings.Cut(setting, "=")
		member.settings[name] = value
	}
	return member
}

// Text is a setting, or "" if nobody set it.
func (m *Member) Text(name string) string {
	return m.settings[name]
}

// Number is a setting, or what it is if nobody set it.
func (m *Member) Number(name string, otherwise int) int {
	value, there := m.settings[name]
	if !there {
		return otherwise
	}
	number, err := strconv.Atoi(value)
	if err != nil {
		log.Fatalf("%s=%s is no number", name, value)
	}
	return number
}

// Span is a setting in milliseconds.
func (m *Member) Span(name string, otherwise int) time.Duration {
	return time.Duration(m.Number(name, otherwise)) * time.Millisecond
}

// Tell writes a line in one piece and without a buffer: what happened before a kill is there.
func (m *Member) Tell(entry Entry) {
	entry.At = float64(time.Now().UnixMicro()) / 1e6
	entry.Worker = m.Worker
	if !utf8.ValidString(entry.Data) { // An aggregate; its MD5 ends it.
		entry.Data = "md5:" + hex.EncodeToString([]byte(entry.Data[len(entry.Data)-16:]))
	}
	line, err := json.Marshal(entry)
	if err != nil {
		log.Fatal(err)
	}
	writing.Lock()
	defer writing.Unlock()
	if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
		log.Fatal(err)
	}
}

// Work is what an app does with a record: it takes work_us.
func (m *Member) Work() {
	time.Sleep(time.Duration(m.Number("work_us", 0)) * time.Microsecond)
}

// WaitForStop returns at SIGTERM.
func WaitForStop() {
	<-stop
}
