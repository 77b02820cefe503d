package messages_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
)

var recordStart = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

func said(kind string, after time.Duration) messages.RunEvent {
	return messages.RunEvent{Kind: kind, At: recordStart.Add(after), Fraction: -1}
}

func wrote(kind string, after time.Duration, text string) messages.RunEvent {
	e := said(kind, after)
	e.Data = []byte(text)
	return e
}

// stored is the output that is stored of what was said.
func stored(events ...messages.RunEvent) (out messages.Output) {
	var r messages.OutputRecord
	for i := range events {
		r.Add(&events[i])
		switch e := &events[i]; e.Kind {
		case "stdout":
			out.Stdout = append(out.Stdout, e.Data...)
		case "stderr":
			out.Stderr = append(out.Stderr, e.Data...)
		}
	}
	out.Record = r.Bytes()
	return out
}

// replayed has one line for each event.
func replayed(t require.TestingT, out *messages.Output) (lines []string) {
	require.NoError(t, out.Replay(func(e messages.RunEvent) error {
		at := "-"
		if !e.At.IsZero() {
			at = e.At.Sub(recordStart).String()
		}
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%s %s %s%s %s%s", at, e.Kind, e.Data, e.Chunk, e.Level, e.Message), " "))
		return nil
	}))
	return lines
}

func TestWhatWasSaidIsReplayedInOrder(t *testing.T) {
	t.Parallel()
	progress, chunk, log := said("progress", 20*time.Millisecond), said("chunk", 30*time.Millisecond), said("log", 40*time.Millisecond)
	progress.Fraction, progress.Message = 0.25, "loading"
	chunk.Chunk = json.RawMessage(`{"word":"a"}`)
	log.Level, log.Message = "warn", "careful"
	long := wrote("stderr", 0, "b")
	noJSON := said("chunk", time.Second)
	noJSON.Chunk = json.RawMessage(`{`)
	whole := stored(wrote("stdout", 0, "a"), long, wrote("stdout", time.Millisecond, "c"), progress, chunk, log, wrote("stdout", time.Second, "d"))
	cut := whole
	cut.Stdout, cut.StdoutCut = cut.Stdout[:1], true
	for name, c := range map[string]struct {
		out  messages.Output
		want []string
	}{
		"nothing":              {messages.Output{}, nil},
		"one of each":          {whole, []string{"0s stdout a", "0s stderr b", "1ms stdout c", "20ms progress  loading", `30ms chunk {"word":"a"}`, "40ms log  warncareful", "1s stdout d"}},
		"bytes at once":        {stored(wrote("stdout", 0, "a"), wrote("stdout", 9*time.Millisecond, "b"), wrote("stdout", 10*time.Millisecond, "c")), []string{"0s stdout ab", "10ms stdout c"}},
		"a stream that is cut": {cut, []string{"0s stdout a", "0s stderr b", "20ms progress  loading", `30ms chunk {"word":"a"}`, "40ms log  warncareful", "1s notice  more was written to stdout than is kept (limits.output)"}},
		"of before records":    {messages.Output{Stdout: []byte("a"), Stderr: []byte("b")}, []string{"- stdout a", "- stderr b"}},
		"no JSON":              {stored(noJSON), []string{"1s notice  a chunk that is no JSON"}},
		"a broken record":      {messages.Output{Stdout: []byte("a"), Record: []byte("}\n")}, []string{"- notice  more was said than is kept in order", "- stdout a"}},
		"a hostile record":     {messages.Output{Stdout: []byte("a"), Record: []byte(`{"kind":"stdout","at":0,"bytes":-9223372036854775808}`)}, []string{"-495312h0m0s stdout a"}},
	} {
		c.want = append([]string(nil), c.want...)
		if name == "a hostile record" {
			c.want[0] = time.Unix(0, 0).Sub(recordStart).String() + " stdout a"
		}
		require.Equal(t, c.want, replayed(t, &c.out), name)
	}
	nan := said("progress", 0)
	nan.Fraction = math.NaN()
	inf := said("progress", 0)
	inf.Fraction = math.Inf(1)
	out := stored(nan, inf)
	require.NoError(t, out.Replay(func(e messages.RunEvent) error {
		require.Negative(t, e.Fraction)
		return nil
	}))
}

// What has no room is told, and the bytes of the streams are all there.
func TestARecordIsBounded(t *testing.T) {
	t.Parallel()
	var events []messages.RunEvent
	for i := range 30_000 {
		events = append(events, wrote("stdout", time.Duration(i)*time.Second, "a"), said("progress", time.Duration(i)*time.Second))
	}
	out := stored(events...)
	require.LessOrEqual(t, len(out.Record), messages.RecordMax)
	lines := replayed(t, &out)
	require.Greater(t, len(lines), 10_000)
	require.Contains(t, lines[len(lines)-2], "notice  more was said than is kept in order")
	var bytes int
	require.NoError(t, out.Replay(func(e messages.RunEvent) error {
		bytes += len(e.Data)
		return nil
	}))
	require.Equal(t, len(out.Stdout), bytes)
}

// Whatever was said, the streams come back whole, each in its order, and times do not go back.
func TestReplayKeepsTheStreams(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var events []messages.RunEvent
		at := time.Duration(0)
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			at += time.Duration(rapid.IntRange(0, 20).Draw(t, "ms")) * time.Millisecond
			kind := rapid.SampledFrom([]string{"stdout", "stderr", "log", "progress"}).Draw(t, "kind")
			events = append(events, wrote(kind, at, rapid.SampledFrom([]string{"", "x", "yz\n"}).Draw(t, "data")))
		}
		out := stored(events...)
		var again messages.Output
		last, others, want := time.Time{}, 0, 0
		for i := range events {
			if events[i].Kind == "log" || events[i].Kind == "progress" {
				want++
			}
		}
		require.NoError(t, out.Replay(func(e messages.RunEvent) error {
			require.False(t, e.At.Before(last))
			last = e.At
			switch e.Kind {
			case "stdout":
				again.Stdout = append(again.Stdout, e.Data...)
			case "stderr":
				again.Stderr = append(again.Stderr, e.Data...)
			default:
				others++
			}
			return nil
		}))
		require.Equal(t, string(out.Stdout), string(again.Stdout))
		require.Equal(t, string(out.Stderr), string(again.Stderr))
		require.Equal(t, want, others)
	})
}
