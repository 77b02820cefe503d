package node_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/test/servers"
)

// skewed is a node on a private Postgres whose clock is apart from the machine's.
type skewed struct {
	*kit
	server *servers.PostgresServer
	runs   chan time.Time // when a handler began
	gate   chan struct{}  // that "hold" waits for
}

// soon is how much later than its time something may come here: the sweeps' interval, and the load of a machine that tests share.
const soon = 8 * time.Second

const skewRetry = 2 * time.Second

func skewLab(t *testing.T, ahead time.Duration) *skewed {
	s := &skewed{
		server: servers.PrivatePostgres(t, servers.PostgresOptions{Clock: true, Unsafe: true}),
		runs:   make(chan time.Time, 1000), gate: make(chan struct{}),
	}
	require.NoError(t, s.server.SetClock(ahead))
	s.kit = s.join(t, "skewed")
	return s
}

// join starts a node on the server.
func (s *skewed) join(t *testing.T, name string) *kit {
	note := func(ctx context.Context, task *messages.Task) (any, error) {
		s.runs <- time.Now()
		return nil, nil
	}
	fail := func(context.Context, *messages.Task) (any, error) {
		s.runs <- time.Now()
		return nil, errors.New("connection reset by peer")
	}
	hold := func(ctx context.Context, _ *messages.Task) (any, error) {
		select {
		case <-s.gate:
		case <-ctx.Done():
		}
		return nil, ctx.Err()
	}
	return lab(t, func(c *node.Config) {
		paired(c, s.server.URL)
		c.Name, c.Lease, c.BeatEvery = name, 0, 0 // what users get
		c.HeartbeatInterval, c.StalenessMultiplier = 0, 0
		c.Retry = messages.RetryPolicy{Base: skewRetry, Jitter: -1}
		handle(map[string]messages.Handler{"echo": note, "fail": fail, "hold": hold})(c)
	}, goPack(t, map[string]string{"echo": "", "fail": "", "hold": ""}))
}

// placedOnce says that the executions completed with their first attempt, and that nothing was taken back.
func (s *skewed) placedOnce(count int) {
	s.t.Helper()
	requests := make([]submit.Request, count)
	for i := range requests {
		requests[i] = ask("t.echo", nil)
	}
	submitted, err := s.Submit(s.t.Context(), requests)
	require.NoError(s.t, err)
	for i := range submitted {
		e := s.await(submitted[i].Execution.ID)
		require.Equal(s.t, messages.Completed, e.Status)
		require.EqualValues(s.t, 1, e.Attempt)
		<-s.runs
	}
}

func runAt(at time.Time) request { return func(r *submit.Request) { r.RunAt = at } }

func queueDeadline(seconds float64) request {
	return func(r *submit.Request) { r.QueueDeadline = &seconds }
}

// within says that something came after its time and not much later.
func within(t *testing.T, took, due time.Duration, what string) {
	t.Helper()
	const early = 100 * time.Millisecond // the error of an estimate, and what a handler takes to note its time
	require.GreaterOrEqual(t, took, due-early, what)
	require.Less(t, took, due+soon, what)
}

// occupy has every worker hold.
func (s *skewed) occupy(workers int) (ids []messages.ExecutionID) {
	s.t.Helper()
	for range workers {
		ids = append(ids, s.submit("t.hold", nil, timeout(300)))
	}
	for _, id := range ids {
		s.becomes(id, messages.Running)
	}
	return ids
}

// With the server's clock apart from the node's, everything comes at its time.
func TestTheServersClockIsApart(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{30 * time.Second, -30 * time.Second, 10 * time.Minute, -10 * time.Minute} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			s := skewLab(t, ahead)
			s.tellsOf(-ahead)
			s.placedOnce(200)

			s.submit("t.fail", nil, retries(1))
			within(t, -(<-s.runs).Sub(<-s.runs), skewRetry, "a retry")

			began := time.Now()
			later := s.submit("t.echo", nil, runAt(began.Add(ahead).Add(2*time.Second)))
			why, err := s.Why(t.Context(), later)
			require.NoError(t, err)
			require.Equal(t, "not_due", why.Reason)
			within(t, (<-s.runs).Sub(began), 2*time.Second, "run_at")

			s.occupy(2)
			began = time.Now()
			waiting := s.await(s.submit("t.echo", nil, queueDeadline(3)))
			require.Equal(t, messages.CodeQueueDeadline, code(waiting))
			within(t, time.Since(began), 3*time.Second, "a queue deadline")
			close(s.gate)

			first := s.run("t.echo", nil, session("s", messages.AffinityStrict))
			next := s.run("t.echo", nil, session("s", messages.AffinityStrict))
			require.Equal(t, first.SessionEpoch, next.SessionEpoch, "the session has not idled out")
			require.False(t, next.SessionLost)
			s.unharmed()
		})
	}
}

// tellsOf says that the skew is told in /readyz, in the log and as a metric.
func (s *skewed) tellsOf(ahead time.Duration) {
	s.t.Helper()
	side := "ahead of"
	if ahead < 0 {
		side = "behind"
	}
	want := regexp.MustCompile(fmt.Sprintf(`this machine's clock is (\d+)\.\d s %s the store's`, side))
	found := want.FindStringSubmatch(fmt.Sprint(s.Ready(s.t.Context()).Notes))
	require.NotNil(s.t, found, "%v", s.Ready(s.t.Context()).Notes)
	seconds, err := strconv.Atoi(found[1])
	require.NoError(s.t, err)
	require.InDelta(s.t, ahead.Abs().Seconds(), seconds, 3)
	require.Contains(s.t, s.log.String(), "this machine's clock is not the store's: ahead_seconds=")
	value := regexp.MustCompile(`(?m)^troupe_clock_ahead_seconds (\S+)$`).FindStringSubmatch(s.scrape())
	require.NotNil(s.t, value)
	measured, err := strconv.ParseFloat(value[1], 64)
	require.NoError(s.t, err)
	require.InDelta(s.t, ahead.Seconds(), measured, 3)
}

// beatsOn waits until the nodes have beaten for so long by the store's clock as it is set now.
func (s *skewed) beatsOn(span time.Duration) {
	s.t.Helper()
	beats := func() (at []time.Time) {
		nodes, err := s.Nodes(s.t.Context())
		require.NoError(s.t, err)
		require.Len(s.t, nodes, 2)
		for i := range nodes {
			at = append(at, nodes[i].BeatAt)
		}
		return at
	}
	first := beats()
	s.until("the nodes beat", func() bool {
		now := beats()
		return now[0].Sub(first[0]) > span && now[1].Sub(first[1]) > span
	})
}

// unharmed says that nothing was taken back, nobody was fenced, and nobody is down.
func (s *skewed) unharmed() {
	s.t.Helper()
	require.NotRegexp(s.t, `(?m)^troupe_take_backs_total\{.*\} [1-9]`, s.scrape())
	for _, text := range []string{"fenced", "node is down", "heartbeat is stale"} {
		require.NotContains(s.t, s.log.String(), text)
	}
}

// While the server's clock is set, forward and back, what runs and waits goes on: it had been given a length of time, and that
// has not passed. Nobody is declared dead, and what is new runs at once.
func TestTheServersClockIsSet(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{30 * time.Second, -30 * time.Second, 10 * time.Minute, -10 * time.Minute} {
		t.Run(step.String(), func(t *testing.T) {
			t.Parallel()
			s := skewLab(t, 0)
			other := s.join(t, "other")
			s.until("the nodes know each other, and are steady", func() bool {
				nodes, err := s.Nodes(t.Context())
				return err == nil && len(nodes) == 2 && time.Since(nodes[0].StartedAt) > 6*time.Second && time.Since(nodes[1].StartedAt) > 6*time.Second
			})
			held := s.occupy(4)
			waits := s.submit("t.echo", nil, queueDeadline(120))
			require.NoError(t, s.server.SetClock(step))
			s.until("the step is seen", func() bool {
				return s.logged("the store's clock was set") == 1 && (&skewed{kit: other}).logged("the store's clock was set") == 1
			})
			s.tellsOf(-step)
			s.beatsOn(3 * time.Second) // sweeps have rounds, and nodes would be declared dead
			for _, id := range held {
				require.Equal(t, messages.Running, s.get(id).Status)
			}
			require.Equal(t, messages.Requested, s.get(waits).Status, "its queue deadline has not passed")
			close(s.gate)
			for _, id := range append(held, waits) {
				e := s.await(id)
				require.Equal(t, messages.Completed, e.Status, "%v", e.Error)
				require.EqualValues(t, 1, e.Attempt)
			}
			<-s.runs
			s.placedOnce(50)
			s.submit("t.fail", nil, retries(1))
			within(t, -(<-s.runs).Sub(<-s.runs), skewRetry, "a retry")
			s.unharmed()
			(&skewed{kit: other}).unharmed()
		})
	}
}
