// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ErrSessionTakenOver ends a run or an iteration after another process has opened a stream with the same client_id.
var ErrSessionTakenOver = errors.New("sidecar: another consumer took over the client_id")

// ErrClosed is returned by a consumer that was closed.
var ErrClosed = errors.New("sidecar: the consumer is closed")

// Error is a request that the sidecar refused.
type Error struct {
	Status  int    // HTTP status.
	Code    string // Short reason: the end of the problem's type, for example "invalid-argument".
	Message string // Sentence of the sidecar.

	retryAfter time.Duration
}

func (e *Error) Error() string {
	return fmt.Sprintf("sidecar: %d %s: %s", e.Status, e.Code, e.Message)
}

// True if the same request may succeed later.
func (e *Error) isTemporary() bool {
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return e.Status == http.StatusConflict && e.Code == "ordering-conflict"
}

// True if the session of all settlements of a request has ended.
func (e *Error) isStale() bool {
	return e.Status == http.StatusConflict || e.Status == http.StatusGone
}

const refusalBytesMax = 64 << 10

// Reads the problem document of an answer.
func refusal(answer *http.Response) *Error {
	var problem struct{ Code, Detail, Title, Type string }
	text, _ := io.ReadAll(io.LimitReader(answer.Body, refusalBytesMax))
	refused := &Error{Status: answer.StatusCode, Message: http.StatusText(answer.StatusCode)}
	if json.Unmarshal(text, &problem) == nil {
		refused.Code = firstOf(problem.Type[strings.LastIndexByte(problem.Type, ':')+1:], problem.Code)
		refused.Message = firstOf(problem.Detail, problem.Title, refused.Message)
	}
	if seconds, err := strconv.ParseFloat(answer.Header.Get("Retry-After"), 64); err == nil && seconds > 0 {
		refused.retryAfter = min(time.Duration(seconds*float64(time.Second)), retryAfterMax)
	}
	return refused
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

type deadLetter struct{ cause error }

func (d *deadLetter) Error() string { return d.cause.Error() }
func (d *deadLetter) Unwrap() error { return d.cause }

// DeadLetter marks an error of a handler as final: the record is not retried and becomes a dead letter, with the
// error's text as its reason.
func DeadLetter(err error) error {
	if err == nil {
		return nil
	}
	return &deadLetter{err}
}
