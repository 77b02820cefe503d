package bench

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// callersHTTP makes 16 callers submit 20,000 executions one by one over HTTP to a node of the real program with its defaults. The
// node runs them meanwhile. The part ends when all outcomes are stored and their notices sent. f is nil for the embedded store.
func callersHTTP(b *testing.B, f *full, open func(*testing.B) *member) {
	for range b.N {
		m := open(b)
		told := f.told(b)
		before, began := f.spent([]*member{m}), time.Now()
		bySixteen(b, func() error { return submitTo(context.Background(), m, requests("core.noop", 1, "")) })
		await(b, "idle", m.idle)
		told()
		b.ReportMetric(float64(callersCount())/time.Since(began).Seconds(), "executions/s")
		f.report(b, before, f.spent([]*member{m}), callersCount())
		m.end()
	}
}

// startHTTP submits 50 executions a second over HTTP for ten seconds and reports the time from submit to start.
func startHTTP(b *testing.B, open func(*testing.B) *member) {
	for range b.N {
		m := open(b)
		paced(b, scaled(500), func(int) (messages.ExecutionID, error) {
			v, err := m.client.Submit(context.Background(), requests("core.noop", 1, "")[0], 0)
			return v.ID, err
		}, func(ctx context.Context, id messages.ExecutionID) (messages.Status, time.Time, error) {
			v, err := m.client.Wait(ctx, id.String())
			return v.Status, v.StartedAt, err
		})
		m.end()
	}
}

// idle reports over HTTP whether no execution waits or runs. Like the function idle it looks for one such execution.
func (m *member) idle() bool {
	for _, stage := range [][]messages.Status{{messages.Requested}, {messages.Scheduled, messages.Running, messages.Cancelling}} {
		query := url.Values{"limit": {"1"}}
		for _, s := range stage {
			query.Add("status", s.String())
		}
		page, err := m.client.Executions(context.Background(), query)
		if err != nil || len(page.Executions) > 0 {
			return false
		}
	}
	return true
}
