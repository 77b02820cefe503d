package actors

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/test/still"
)

// acceptsLetters keeps every dead letter.
type acceptsLetters struct{ kept int }

func (a *acceptsLetters) SaveDeadLetter(context.Context, store.DeadLetter) (int64, error) {
	a.kept++
	return int64(a.kept), nil
}

// acks counts what was acked.
type acks struct{ n int }

func (a *acks) Ack() error {
	a.n++
	return nil
}
func (a *acks) Nack(bool) error { return nil }

// flood does something 1,000 times, and once more a minute later: the log has two lines, and the second counts the rest.
func flood(t *testing.T, log *bytes.Buffer, text string, do func()) {
	t.Helper()
	for range 1000 {
		do()
	}
	require.Equal(t, 1, strings.Count(log.String(), text))
	require.NotContains(t, log.String(), "left_out")
	time.Sleep(time.Minute)
	do()
	require.Equal(t, 2, strings.Count(log.String(), text))
	require.Contains(t, log.String(), "left_out=999")
}

// Who sends 1,000 messages that make no execution fills a table, not the log.
func TestRefusedSubmissionsAreLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	for text, read := range map[string]func(broker.Delivery) (messages.Execution, *Refusal){
		"submission refused": func(broker.Delivery) (messages.Execution, *Refusal) {
			return messages.Execution{}, &Refusal{Malformed: true, Code: "invalid_json", Text: "foreign"}
		},
		"reading a submission failed": func(broker.Delivery) (messages.Execution, *Refusal) { panic("foreign") },
	} {
		t.Run(text, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				letters, settled := &acceptsLetters{}, &acks{}
				i := &Intake{cfg: IntakeConfig{DeadLetters: letters, Read: read, Logger: hclog.New(&hclog.LoggerOptions{Output: &log})}}
				if strings.HasPrefix(text, "reading") { // whose other line is that of the refusal
					i.logs.refused.Warn(hclog.NewNullLogger(), "")
					time.Sleep(time.Second)
				}
				flood(t, &log, text, func() { i.take(t.Context(), []broker.Delivery{{Settler: settled}}) })
				require.Equal(t, 1001, letters.kept)
				require.Equal(t, 1001, settled.n)
			})
		})
	}
}

// lettersAlone is a store that is asked for nothing but to keep dead letters.
type lettersAlone struct {
	store.Store
	acceptsLetters
}

func (l *lettersAlone) SaveDeadLetter(ctx context.Context, d store.DeadLetter) (int64, error) {
	return l.acceptsLetters.SaveDeadLetter(ctx, d)
}

// Dead letters that are about no placement fill their table, not the log.
func TestQuarantinedDeadLettersAreLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	settings := broker.Settings{}
	for reason, letter := range map[string]broker.Delivery{
		"malformed": {Message: broker.Message{Body: []byte("\x00\xff")}},
		"expired":   {Deaths: []broker.Death{{Reason: broker.DeathExpired, Queue: settings.RequestsQueue()}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			letters := &lettersAlone{}
			d := &DeadLetter{cfg: DeadLetterConfig{Store: letters, Settings: settings, Logger: hclog.New(&hclog.LoggerOptions{Output: &log})}}
			flood(t, &log, "dead letter quarantined", func() { require.NoError(t, d.judge(t.Context(), letter)) })
			require.Equal(t, 2, strings.Count(log.String(), "reason="+reason))
			require.Equal(t, 1001, letters.kept)
		})
	}
}

// What a node leaves that dies is named in the log, each with its trace, up to a bound.
func TestAbandonedExecutionsAreNamedUpToABound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := NewRecorder(RecorderConfig{Outcomes: NewOutcomes(), Logger: hclog.New(&hclog.LoggerOptions{Output: &log})}).New().(*Recorder)
		e := &messages.Execution{
			ID: messages.NewExecutionID(), Attempt: 2, Action: "act", WorkerID: "n/pool/0", Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			Status: messages.Abandoned, Error: &messages.Error{Code: messages.CodeWorkerLost, Message: "gone", FailedBy: "sweep"},
		}
		tell := func(verdict store.Verdict) {
			r.announce(&Recorded{Items: []Item{{Change: &store.Finish{ID: e.ID}}}, Results: []store.Result{{Verdict: verdict, Status: e.Status, Execution: e}}}, &announced{})
		}
		tell(store.Already)
		require.Empty(t, log.String(), "who has made the change logs it")
		tell(store.Applied)
		require.Contains(t, log.String(), "[WARN]  execution abandoned: execution="+e.ID.String()+
			" trace_id=0af7651916cd43dd8448eb211c80319c attempt=2 action=act worker=n/pool/0 reason=worker_lost error=gone failed_by=sweep\n")
		for range 1000 {
			tell(store.Applied)
		}
		require.Equal(t, abandonedLines, strings.Count(log.String(), "execution abandoned"))
		time.Sleep(time.Minute)
		tell(store.Applied)
		require.Equal(t, abandonedLines+1, strings.Count(log.String(), "execution abandoned"))
		require.Contains(t, log.String(), "left_out=991")
		e.Status = messages.Failed
		tell(store.Applied)
		require.Equal(t, abandonedLines+1, strings.Count(log.String(), "execution abandoned"))
	})
}

// A broker that takes no notice for an hour is tried twice a second, and told of once a minute.
func TestUntoldNoticesAreLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		cfg := NoticesConfig{Logger: hclog.New(&hclog.LoggerOptions{Output: &log})}
		n := &Notices{cfg: cfg, cell: &Cell{}, teller: newTeller(cfg, still.New())}
		flood(t, &log, "notices not told", func() { n.done(roundEmpty, errors.New("not confirmed")) })
	})
}
