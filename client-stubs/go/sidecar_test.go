// SPDX-License-Identifier: Apache-2.0

package sidecar_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sidecar "github.com/kinesis-sidecar/kinesis-sidecar/client-stubs/go"
)

// A generous limit for what must happen.
const patience = 30 * time.Second

// A process of the real sidecar with a local stream.
type process struct {
	t       *testing.T
	options []string
	url     string // For the consumer.
	token   string
	client  http.Client
	command *exec.Cmd
	log     string
}

// Starts the binary of KINESIS_SIDECAR_BIN: on a free port, or on a Unix socket if there is a file with a token.
func startSidecar(t *testing.T, tokenFile string) *process {
	t.Helper()
	sidecar.LimitTest(t)
	if os.Getenv("KINESIS_SIDECAR_BIN") == "" {
		t.Fatal("KINESIS_SIDECAR_BIN must be the path of the sidecar's binary")
	}
	// Short: the path of a Unix socket has 107 characters at most.
	folder, err := os.MkdirTemp("", "ks")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	p := &process{t: t, log: filepath.Join(folder, "log")}
	address := freeAddress(t)
	p.url = "http://" + address
	if tokenFile != "" {
		address = "unix:" + filepath.Join(folder, "api")
		p.url = address
		token, err := os.ReadFile(tokenFile)
		if err != nil {
			t.Fatal(err)
		}
		p.token = strings.TrimSpace(string(token))
	}
	p.client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		if path, ok := strings.CutPrefix(address, "unix:"); ok {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}}
	p.options = []string{
		"--source", "local:" + filepath.Join(folder, "stream.db"), "--local-shards", "2", "--stream", "demo",
		"--application", "demo", "--initial-position", "trim_horizon", "--state-dir", folder, "--worker-id", "one",
		"--listen", address, "--ops-listen", "unix:" + filepath.Join(folder, "ops"), "--lease-duration-ms", "2000",
		"--retry-backoff-ms", "50", "--checkpoint-interval-ms", "200", "--token-file", tokenFile,
	}
	p.start()
	t.Cleanup(func() { p.end(syscall.SIGTERM) })
	return p
}

func freeAddress(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func (p *process) start() {
	p.t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	p.command = exec.Command(os.Getenv("KINESIS_SIDECAR_BIN"), p.options...)
	p.command.Stdout, p.command.Stderr = log, log
	if err := p.command.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.eventually("the sidecar is ready", func() bool {
		var status struct{ Ready bool }
		return p.get("/v1/status", &status) == nil && status.Ready
	})
}

func (p *process) end(signal syscall.Signal) {
	p.command.Process.Signal(signal)
	p.command.Wait()
	if p.t.Failed() {
		text, _ := os.ReadFile(p.log)
		p.t.Logf("log of the sidecar:\n%s", text)
	}
}

func (p *process) eventually(subject string, holds func() bool) {
	p.t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			text, _ := os.ReadFile(p.log)
			p.t.Fatalf("never happened: %s\n%s", subject, text)
		}
	}
}

func (p *process) do(method, path string, body []byte, result any) error {
	request, err := http.NewRequest(method, "http://localhost"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+p.token)
	answer, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != 200 {
		return fmt.Errorf("%s: %s %v", path, text, err)
	}
	return json.Unmarshal(text, result)
}

func (p *process) get(path string, result any) error { return p.do("GET", path, nil, result) }

// Puts records with the data 0, 1, 2 .. in turn for each key.
func (p *process) put(count, keys int) {
	p.t.Helper()
	type entry struct {
		PartitionKey string
		Data         []byte
	}
	var body struct{ Records []entry }
	for n := range count {
		body.Records = append(body.Records, entry{fmt.Sprintf("key-%d", n%keys), fmt.Append(nil, n)})
	}
	text, _ := json.Marshal(body)
	var answer struct{ FailedRecordCount int }
	if err := p.do("POST", "/v1/local/records", text, &answer); err != nil || answer.FailedRecordCount > 0 {
		p.t.Fatalf("put failed: %+v %v", answer, err)
	}
}

// Returns the number of records that are settled in all shards, without a gap.
func (p *process) settled() (count int) {
	var answer struct{ Shards []struct{ Settled int } }
	if err := p.get("/v1/shards", &answer); err != nil {
		p.t.Fatal(err)
	}
	for _, shard := range answer.Shards {
		count += shard.Settled
	}
	return count
}

func (p *process) consumer(clientID string, options ...sidecar.Option) *sidecar.Consumer {
	options = append([]sidecar.Option{sidecar.URL(p.url), sidecar.TokenFile("")}, options...)
	consumer := sidecar.New(clientID, options...)
	p.t.Cleanup(func() { consumer.Close() })
	return consumer
}

// Counts the times that each record was handled successfully.
type tally struct {
	mu    sync.Mutex
	times map[string]int
	order map[string][]int // Of each key.
}

func newTally() *tally { return &tally{times: map[string]int{}, order: map[string][]int{}} }

func (c *tally) add(record *sidecar.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var n int
	json.Unmarshal(record.Data, &n)
	c.times[string(record.Data)]++
	c.order[record.PartitionKey] = append(c.order[record.PartitionKey], n)
}

func (c *tally) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.times)
}

func (c *tally) checkOnce(t *testing.T, count int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.times) != count {
		t.Errorf("%d records were handled, want %d", len(c.times), count)
	}
	for data, times := range c.times {
		if times != 1 {
			t.Errorf("record %s was handled %d times", data, times)
		}
	}
}

func (c *tally) checkOrder(t *testing.T) {
	t.Helper()
	for key, numbers := range c.order {
		if !slices.IsSorted(numbers) {
			t.Errorf("%s: handled in the order %v", key, numbers)
		}
	}
}

// Runs in the background; the result ends the run.
func start(t *testing.T, consumer *sidecar.Consumer, handler sidecar.Handler, options ...sidecar.RunOption) func() error {
	ctx, stop := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- consumer.Run(ctx, handler, options...) }()
	return func() error {
		stop()
		return <-result
	}
}

func TestEvery_outcome_settles_its_record(t *testing.T) {
	p := startSidecar(t, "")
	p.put(40, 10)
	handled := newTally()
	stop := start(t, p.consumer("app"), func(_ context.Context, record *sidecar.Record) error {
		defer handled.add(record)
		switch string(record.Data) {
		case "3":
			return sidecar.DeadLetter(errors.New("asked 3"))
		case "4":
			record.Drop()
		case "5":
			record.DeadLetter("asked 5")
			return errors.New("too late")
		case "6":
			if record.Attempt == 1 {
				return errors.New("fail 6")
			}
		case "7":
			if record.Attempt == 1 {
				record.Retry(time.Millisecond, "fail 7")
			}
		}
		return nil
	}, sidecar.Concurrency(4))

	p.eventually("all are settled", func() bool { return p.settled() == 40 })

	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if handled.times["6"] != 2 || handled.times["7"] != 2 || handled.times["8"] != 1 {
		t.Errorf("handled %v", handled.times)
	}
	var answer struct {
		DeadLetters []struct{ Reason string } `json:"dead_letters"`
	}
	p.eventually("the dead letters are written", func() bool {
		return p.get("/v1/dead-letters", &answer) == nil && len(answer.DeadLetters) == 2
	})
	for _, letter := range answer.DeadLetters {
		if !strings.HasPrefix(letter.Reason, "asked ") {
			t.Errorf("got the reason %q", letter.Reason)
		}
	}
}

func TestOrder_of_each_key_is_kept_when_concurrent_handlers_fail(t *testing.T) {
	p := startSidecar(t, "")
	p.put(400, 20)
	succeeded := newTally()
	stop := start(t, p.consumer("app"), func(_ context.Context, record *sidecar.Record) error {
		if strings.HasSuffix(string(record.Data), "7") && record.Attempt <= 2 {
			return errors.New("fail")
		}
		succeeded.add(record)
		return nil
	}, sidecar.Concurrency(8))

	p.eventually("all are settled", func() bool { return p.settled() == 400 })

	if err := stop(); err != nil {
		t.Fatal(err)
	}
	succeeded.checkOnce(t, 400)
	succeeded.checkOrder(t)
}

func TestHandler_slower_than_the_ack_deadline_runs_once(t *testing.T) {
	p := startSidecar(t, "")
	p.put(3, 1)
	handled := newTally()
	stop := start(t, p.consumer("app", sidecar.AckDeadline(time.Second)), func(_ context.Context, record *sidecar.Record) error {
		handled.add(record)
		time.Sleep(3 * time.Second)
		return nil
	})

	p.eventually("all are settled", func() bool { return p.settled() == 3 })

	if err := stop(); err != nil {
		t.Fatal(err)
	}
	handled.checkOnce(t, 3)
}

func TestRecord_in_which_a_loop_was_left_is_redelivered(t *testing.T) {
	p := startSidecar(t, "")
	p.put(50, 5)
	finished := newTally()
	consumer := p.consumer("app")
	for record, err := range consumer.Records(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if finished.len() == 10 {
			break
		}
		finished.add(record)
	}
	consumer.Close()

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	second := p.consumer("app")
	for record, err := range second.Records(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if finished.add(record); finished.len() == 50 {
			stop()
		}
	}
	second.Close()

	p.eventually("all are settled", func() bool { return p.settled() == 50 })
	finished.checkOnce(t, 50)
	finished.checkOrder(t)
}

func TestBatches_settle_their_records(t *testing.T) {
	p := startSidecar(t, "")
	p.put(200, 10)
	succeeded := newTally()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	consumer := p.consumer("app")
	for batch, err := range consumer.Batches(ctx, 30, 100*time.Millisecond) {
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range batch.Records {
			if strings.HasSuffix(string(record.Data), "9") && record.Attempt == 1 {
				record.Retry(0, "fail")
				continue
			}
			succeeded.add(record)
		}
		if succeeded.len() == 200 {
			stop()
		}
	}
	consumer.Close()

	p.eventually("all are settled", func() bool { return p.settled() == 200 })
}

func TestStop_waits_for_running_handlers_and_keeps_their_acknowledgements(t *testing.T) {
	p := startSidecar(t, "")
	p.put(100, 100)
	handled := newTally()
	release := make(chan struct{})
	result := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := p.consumer("app")
	go func() {
		result <- first.Run(ctx, func(_ context.Context, record *sidecar.Record) error {
			handled.add(record)
			<-release
			return nil
		}, sidecar.Concurrency(4))
	}()
	p.eventually("four handlers run", func() bool { return handled.len() == 4 })

	cancel()
	close(release)

	if err := <-result; err != nil {
		t.Fatal(err)
	}
	if begun := handled.len(); begun != 4 {
		t.Errorf("%d records were handed out, want 4", begun)
	}
	stop := start(t, p.consumer("app"), func(_ context.Context, record *sidecar.Record) error {
		handled.add(record)
		return nil
	})
	p.eventually("all are settled", func() bool { return p.settled() == 100 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	handled.checkOnce(t, 100)
}

func TestSidecar_that_is_killed_and_started_again_delivers_the_rest(t *testing.T) {
	p := startSidecar(t, "")
	p.put(300, 30)
	handled := newTally()
	release := make(chan struct{})
	stop := start(t, p.consumer("app"), func(_ context.Context, record *sidecar.Record) error {
		handled.add(record)
		if handled.len() >= 100 {
			<-release
		}
		return nil
	}, sidecar.Concurrency(8))
	p.eventually("handlers run", func() bool { return handled.len() >= 100 })

	p.end(syscall.SIGKILL)
	p.start()
	close(release)

	p.eventually("all are handled", func() bool { return handled.len() == 300 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestUnix_socket_with_a_token_is_used(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("a-secret-of-the-test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KINESIS_SIDECAR_TOKEN_FILE", token)
	p := startSidecar(t, token)
	p.put(20, 4)
	t.Setenv("KINESIS_SIDECAR_URL", p.url)
	handled := newTally()
	stop := start(t, sidecar.New("app"), func(_ context.Context, record *sidecar.Record) error {
		handled.add(record)
		return nil
	})

	p.eventually("all are settled", func() bool { return p.settled() == 20 })

	if err := stop(); err != nil {
		t.Fatal(err)
	}
	handled.checkOnce(t, 20)
	var refused *sidecar.Error
	err := sidecar.New("other", sidecar.TokenFile("")).Run(t.Context(), nil)
	if !errors.As(err, &refused) || refused.Status != 401 {
		t.Errorf("without a token: got %v", err)
	}
}

func TestSecond_consumer_with_the_same_client_id_takes_the_session_over(t *testing.T) {
	p := startSidecar(t, "")
	p.put(1, 1)
	handled := newTally()
	result := make(chan error, 1)
	first := p.consumer("app")
	go func() {
		result <- first.Run(t.Context(), func(_ context.Context, record *sidecar.Record) error {
			handled.add(record)
			return nil
		})
	}()
	p.eventually("the first one reads", func() bool { return p.settled() == 1 })

	stop := start(t, p.consumer("app"), func(_ context.Context, record *sidecar.Record) error {
		handled.add(record)
		return nil
	})

	if err := <-result; !errors.Is(err, sidecar.ErrSessionTakenOver) {
		t.Errorf("got %v", err)
	}
	p.put(10, 1)
	p.eventually("the second one reads", func() bool { return p.settled() == 11 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestAckPersisted_waits_for_the_lease_table(t *testing.T) {
	p := startSidecar(t, "")
	p.put(5, 1)
	var mu sync.Mutex
	var persisted []bool
	stop := start(t, p.consumer("app"), func(ctx context.Context, record *sidecar.Record) error {
		covered, err := record.AckPersisted(ctx)
		mu.Lock()
		defer mu.Unlock()
		persisted = append(persisted, covered && err == nil)
		return err
	})

	p.eventually("all are settled", func() bool { return p.settled() == 5 })

	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if len(persisted) != 5 || slices.Contains(persisted, false) {
		t.Errorf("got %v", persisted)
	}
}
