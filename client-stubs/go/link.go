// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const (
	dialTimeout     = 5 * time.Second
	answerBytesMax  = 16 << 20
	readBufferBytes = 4 << 10 // For heads. What exceeds it is read without a copy.
)

// The connections to the sidecar.
type link struct {
	base      string // http://HOST:PORT
	tokenFile string
	client    http.Client
}

func newLink(config *config) (*link, error) {
	l := &link{tokenFile: config.tokenFile}
	dialer := net.Dialer{Timeout: dialTimeout}
	transport := &http.Transport{DialContext: dialer.DialContext, DisableCompression: true, ReadBufferSize: readBufferBytes}
	l.client.Transport = transport
	if config.transport != nil {
		l.client.Transport = config.transport
	}
	if path, ok := strings.CutPrefix(config.url, "unix:"); ok {
		l.base = "http://localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		}
		return l, nil
	}
	address, err := url.Parse(config.url)
	if err != nil || address.Scheme != "http" || address.Host == "" {
		return l, fmt.Errorf("sidecar: the URL must be http://HOST:PORT or unix:/PATH, got %q", config.url)
	}
	l.base = "http://" + address.Host
	return l, nil
}

func (l *link) close() { l.client.CloseIdleConnections() }

// Sends a request. The answer has the status 200; any other one is an error of the type *Error.
func (l *link) do(ctx context.Context, method, path string, body []byte, accept string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, l.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if l.tokenFile != "" {
		token, err := os.ReadFile(l.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("sidecar: cannot read the token file: %w", err)
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	answer, err := l.client.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()
		return nil, refusal(answer)
	}
	return answer, nil
}

// Sends JSON and reads the JSON of the answer into result.
func (l *link) call(ctx context.Context, timeout time.Duration, method, path string, body, result any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var text []byte
	var err error
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	answer, err := l.do(ctx, method, path, text, "application/json")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(io.LimitReader(answer.Body, answerBytesMax))
	if err != nil || result == nil {
		return err
	}
	return json.Unmarshal(text, result)
}

// Waits between two attempts: 0.1 s, doubled up to 5 s, less up to a half by chance.
type backoff struct{ pause time.Duration }

func (b *backoff) reset() { b.pause = 0 }

func (b *backoff) next(err error) time.Duration {
	b.pause = min(max(2*b.pause, backoffFirst), backoffMax)
	pause := b.pause/2 + rand.N(b.pause/2)
	if refused, ok := err.(*Error); ok {
		pause = max(pause, refused.retryAfter)
	}
	return pause
}

// Returns false if ctx ended before.
func sleep(ctx context.Context, duration time.Duration) bool {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
