package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

func TestWhatIsOfAPart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"no error":         {nil, false},
		"one of its parts": {fmt.Errorf("apply: %w", &store.PartError{Err: store.ErrBlocked}), true},
		"a part and away":  {&store.PartError{Err: store.ErrUnavailable}, true},
		"nobody knows it":  {errors.New("?"), true},
		"away":             {fmt.Errorf("apply: %w", store.ErrUnavailable), false},
		"full":             {store.ErrFull, false},
		"read-only":        {store.ErrReadOnly, false},
		"closed":           {store.ErrClosed, false},
		"cancelled":        {context.Canceled, false},
		"late":             {context.DeadlineExceeded, false},
	} {
		require.Equal(t, c.want, store.MayPassInParts(c.err), name)
	}
}

// Size counts all data of a change: a group of changes stays below the size that a transaction can hold.
func TestSizeCountsAllThatAChangeBrings(t *testing.T) {
	t.Parallel()
	o := messages.Outcome{Status: messages.Failed, Result: make([]byte, 1000),
		Error: &messages.Error{Message: strings.Repeat("m", 200), Details: make([]byte, 30), Stderr: "four"}}
	next := &messages.Execution{Parameters: make([]byte, 50_000), Labels: map[string]string{"key": "value"}}
	fixed := store.Size(&store.Claim{})
	require.Positive(t, fixed)
	require.Equal(t, fixed+1234, store.Size(&store.End{Outcome: o}))
	require.Equal(t, fixed+1234+18, store.Size(&store.Finish{Outcome: o, Output: messages.Output{Stdout: make([]byte, 5), Stderr: make([]byte, 6), Record: make([]byte, 7)}}))
	require.Equal(t, fixed+50_008, store.ExecutionSize(next))
	for _, c := range []store.Change{&store.Finish{Outcome: o, Retry: next}, &store.End{Outcome: o, Retry: next}} {
		require.Equal(t, 2*fixed+1234+50_008, store.Size(c))
	}
}

func TestErrorsAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	e := &messages.Error{Code: "c", Message: "m", FailedBy: "f", Stderr: "s", Class: "k", Type: "t", Details: []byte(`{"n":1}`), WorkerFault: true}
	require.Equal(t, e, store.DecodeError(store.EncodeError(e)))
}

// Wherever the beginning of an error ends, it is read as far as it goes.
func TestTheBeginningOfAnErrorIsRead(t *testing.T) {
	t.Parallel()
	again := false
	rapid.Check(t, func(t *rapid.T) {
		e := messages.Error{
			Code: "c", Class: "k", Type: "T<é", FailedBy: "f", Exit: "x", Retriable: &again,
			Message: strings.Repeat(rapid.SampledFrom([]string{"m", "<é", "\x00a", "\U0001F600", "\"\\"}).Draw(t, "text"), rapid.IntRange(0, 20_000).Draw(t, "length")),
			Details: json.RawMessage(`{"code":"wrong","n":` + strings.Repeat("1", rapid.IntRange(1, store.ErrorListed).Draw(t, "details")) + `}`),
			Stderr:  strings.Repeat("é", rapid.IntRange(0, store.ErrorListed).Draw(t, "stderr")),
		}
		stored := store.EncodeError(&e)
		if len(stored) <= store.ErrorListed {
			require.Equal(t, &e, store.DecodeError(stored))
			return
		}
		got := store.DecodeError(stored[:store.ErrorListed])
		require.True(t, strings.HasPrefix(e.Message, got.Message))
		require.True(t, strings.HasPrefix(e.Stderr, got.Stderr))
		require.GreaterOrEqual(t, len(got.Message), min(len(e.Message), messages.ListedMessageMax))
		want := e
		want.Message, want.Stderr, want.Details = got.Message, got.Stderr, nil
		require.Equal(t, &want, got)
	})
	for name, text := range map[string]string{"no JSON": "\x00", "another type": `["`, "no code": `{"message":"`, "a broken key": `{"code":"c","mess`} {
		stored := []byte(text + strings.Repeat("x", store.ErrorListed-len(text)))
		e := store.DecodeError(stored)
		if name == "a broken key" {
			require.Equal(t, &messages.Error{Code: "c"}, e)
			continue
		}
		require.True(t, strings.HasPrefix(e.Message, "stored error cannot be read: "+text), name)
	}
}

func TestCheckAtItsBounds(t *testing.T) {
	t.Parallel()
	of := func(change func(e *messages.Execution)) error {
		e := messages.Execution{Action: "a.b", Pool: "p", Priority: messages.PriorityMin}
		change(&e)
		return store.Check(&e)
	}
	for name, c := range map[string]struct {
		most, more func(e *messages.Execution)
	}{
		"priority":        {func(e *messages.Execution) { e.Priority = messages.PriorityMax }, func(e *messages.Execution) { e.Priority = messages.PriorityMax + 1 }},
		"session":         {func(e *messages.Execution) { e.Session = text(messages.SessionMax) }, func(e *messages.Execution) { e.Session = text(messages.SessionMax + 1) }},
		"idempotency key": {func(e *messages.Execution) { e.IdempotencyKey = text(messages.KeyMax) }, func(e *messages.Execution) { e.IdempotencyKey = text(messages.KeyMax + 1) }},
		"parameters": {func(e *messages.Execution) { e.Parameters = make([]byte, messages.ParametersMax) },
			func(e *messages.Execution) { e.Parameters = make([]byte, messages.ParametersMax+1) }},
		"timeout": {func(e *messages.Execution) { e.Timeout, e.StallTimeout = 0, 0 }, func(e *messages.Execution) { e.StallTimeout = -1 }},
		"run_at":  {func(e *messages.Execution) { e.RunAt = year(9999) }, func(e *messages.Execution) { e.RunAt = year(10_000) }},
	} {
		require.NoError(t, of(c.most), name)
		err := of(c.more)
		require.ErrorIs(t, err, store.ErrInvalid, name)
		require.ErrorContains(t, err, name)
	}
}

func text(n int) string { return strings.Repeat("x", n) }

func year(n int) time.Time { return time.Date(n, 12, 31, 0, 0, 0, 0, time.UTC) }
