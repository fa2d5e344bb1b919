// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Ordering says which records are delivered in order.
type Ordering string

const (
	OrderByShard Ordering = "shard" // All records of a shard.
	OrderByKey   Ordering = "key"   // The records of a partition key.
	Unordered    Ordering = "none"
)

const (
	runLanes            = 64 // Of a shard in a run with concurrency.
	retryAfterMax       = 30 * time.Second
	backoffFirst        = 100 * time.Millisecond
	backoffMax          = 5 * time.Second
	heartbeatsMissed    = 3
	heartbeatDefault    = 10 * time.Second
	maxInFlightDefault  = 1000
	maxBytesDefault     = 16 << 20
	ackDeadlineDefault  = time.Minute
	settlementsMax      = 1000 // Of a request.
	reasonBytesMax      = 1000 // The sidecar keeps as many.
	persistedWaitMs     = 10000
	batchRecordsDefault = 500
	batchWaitDefault    = time.Second
)

type config struct {
	url, tokenFile  string
	maxInFlight     int
	maxBytes        int64
	ackDeadline     time.Duration
	maxProcessing   time.Duration
	ackInterval     time.Duration
	ordering        Ordering
	lanes           int
	share, salt     string
	filter          string
	shards          []string
	subscription    string
	onEvent         func(Event)
	transport       http.RoundTripper
	answerTimeout   time.Duration // Of a settle request.
	closeTimeout    time.Duration // Of all requests of Close.
	firstByteWithin time.Duration // Of a stream, until its session says how often heartbeats are due.
}

func defaults() config {
	return config{
		url:             firstOf(os.Getenv("KINESIS_SIDECAR_URL"), "http://127.0.0.1:8990"),
		tokenFile:       os.Getenv("KINESIS_SIDECAR_TOKEN_FILE"),
		maxInFlight:     maxInFlightDefault,
		maxBytes:        maxBytesDefault,
		ackDeadline:     ackDeadlineDefault,
		maxProcessing:   time.Hour,
		ackInterval:     100 * time.Millisecond,
		answerTimeout:   10 * time.Second,
		closeTimeout:    5 * time.Second,
		firstByteWithin: heartbeatsMissed*heartbeatDefault + time.Second,
	}
}

// Option is an option of a consumer.
type Option func(*config)

// URL is the address of the sidecar, http://HOST:PORT or unix:/PATH. Default: the environment variable
// KINESIS_SIDECAR_URL, else http://127.0.0.1:8990.
func URL(url string) Option { return func(c *config) { c.url = url } }

// TokenFile is the file with the bearer token of apps. It is read for every connection and every settle request.
// Default: the environment variable KINESIS_SIDECAR_TOKEN_FILE, else none.
func TokenFile(path string) Option { return func(c *config) { c.tokenFile = path } }

// MaxInFlight is the maximum number of records that are delivered and not settled. Default: 1000.
func MaxInFlight(records int) Option { return func(c *config) { c.maxInFlight = records } }

// MaxInFlightBytes is the maximum size of the records that are delivered and not settled. Default: 16 MiB.
func MaxInFlightBytes(bytes int64) Option { return func(c *config) { c.maxBytes = bytes } }

// AckDeadline is the time after which a record that is neither settled nor extended is redelivered. Default: 60 s.
func AckDeadline(deadline time.Duration) Option { return func(c *config) { c.ackDeadline = deadline } }

// MaxProcessing is the time for which the package extends the deadline of a record that the app has. Default: 1 h.
func MaxProcessing(duration time.Duration) Option {
	return func(c *config) { c.maxProcessing = duration }
}

// AckInterval is the time for which an acknowledgement waits for others, to share a request with them. Default: 0.1 s.
func AckInterval(interval time.Duration) Option { return func(c *config) { c.ackInterval = interval } }

// OrderBy sets what is delivered in order. Lanes is the number of parts of a shard with [OrderByKey], 1 to 64; it is 0
// for the default of the sidecar, and otherwise. Default: by shard; by key with 64 lanes with a [Share], or in a run
// with [Concurrency] above 1.
func OrderBy(ordering Ordering, lanes int) Option {
	return func(c *config) { c.ordering, c.lanes = ordering, lanes }
}

// Shards limits the consumer to these shard ids. Default: all.
func Shards(ids ...string) Option { return func(c *config) { c.shards = ids } }

// Share limits the consumer to a part of the partition keys: share is a decimal like "0.05", and salt chooses which
// part. Consumers without a share get all other keys; they must have the same [OrderBy]. Default: none.
func Share(share, salt string) Option { return func(c *config) { c.share, c.salt = share, salt } }

// Filter limits the consumer to the records that match a pattern, as JSON. All other records count as settled. All open
// consumers of a subscription have the same filter. Default: none.
func Filter(pattern string) Option { return func(c *config) { c.filter = pattern } }

// Subscription names the subscription. It is needed if the sidecar has several.
func Subscription(name string) Option { return func(c *config) { c.subscription = name } }

// OnEvent sets a function that is called with every control event of the stream, with the type "disconnected" and with
// the type "settle_failed". Calls may come from several goroutines. The function must not block.
func OnEvent(call func(Event)) Option { return func(c *config) { c.onEvent = call } }

// Transport replaces the connections to the sidecar, for tests: see the package sidecartest.
func Transport(transport http.RoundTripper) Option {
	return func(c *config) { c.transport = transport }
}

// Decides what is delivered in order, as soon as the concurrency is known.
func (c *config) order(concurrency int) {
	if c.ordering == "" && (concurrency > 1 || c.share != "") {
		c.ordering, c.lanes = OrderByKey, runLanes
	}
	if c.ordering == "" {
		c.ordering = OrderByShard
	}
}

func (c *config) check() error {
	switch {
	case c.maxInFlight < 1:
		return fmt.Errorf("sidecar: MaxInFlight must be 1 or more, got %d", c.maxInFlight)
	case c.maxBytes < 1:
		return fmt.Errorf("sidecar: MaxInFlightBytes must be 1 or more, got %d", c.maxBytes)
	case c.ackDeadline < time.Millisecond:
		return fmt.Errorf("sidecar: AckDeadline must be 1 ms or more, got %v", c.ackDeadline)
	}
	return nil
}

// The query of GET /v1/records/stream.
func (c *config) query(clientID string) string {
	values := url.Values{
		"client_id":           {clientID},
		"max_in_flight":       {strconv.Itoa(c.maxInFlight)},
		"max_in_flight_bytes": {strconv.FormatInt(c.maxBytes, 10)},
		"ack_deadline_ms":     {strconv.FormatInt(c.ackDeadline.Milliseconds(), 10)},
		"ordering":            {string(c.ordering)},
	}
	if c.lanes > 0 {
		values.Set("lanes", strconv.Itoa(c.lanes))
	}
	if len(c.shards) > 0 {
		values.Set("shards", strings.Join(c.shards, ","))
	}
	for name, text := range map[string]string{
		"subscription": c.subscription, "share": c.share, "salt": c.salt, "filter": c.filter,
	} {
		if text != "" {
			values.Set(name, text)
		}
	}
	return values.Encode()
}
