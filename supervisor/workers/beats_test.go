package workers

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/supervisor/part"
)

// A heartbeat that is ahead of the clock counts as fresh, and the log says so: once for all workers that it comes to at a time,
// and again only when it has been well in between.
func TestHeartbeatsFromTheFutureAreLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	now := time.Unix(1_000_000, 0)
	w := New(&part.Shared{WorkerConfig: &actors.WorkerConfig{}, Config: &part.Config{}}, &Memory{}, nil, nil)
	w.slots = make(slots, 3)
	w.Config.Logger = hclog.New(&hclog.LoggerOptions{Output: &log})
	for n := range messages.Slot(3) {
		w.slots[n] = &slot{number: n, id: messages.NewWorkerID("n", "p", n), cur: &member{state: lifecycle.Ready, ready: true}}
	}
	look := func(beats ...time.Duration) []string {
		log.Reset()
		for n, ahead := range beats {
			w.slots[n].beat = now.Add(ahead)
		}
		w.watchBeats(now)
		return strings.Split(strings.TrimSpace(log.String()), "\n")
	}
	none := []string{""}
	require.Equal(t, none, look(0, -time.Second, 0))
	for _, s := range w.slots {
		require.False(t, s.stale)
	}
	lines := look(90*time.Second, 0, 90*time.Second)
	require.Len(t, lines, 1)
	require.Regexp(t, `\[WARN\] +Worker heartbeat is from the future; it counts as fresh: worker=n/p/[02] workers=2 ahead=1m30s`, lines[0])
	for _, s := range w.slots {
		require.False(t, s.stale, "it counts as fresh")
	}
	require.Equal(t, health.Healthy, w.evaluate(w.slots[0], now, &health.Capabilities{}, lifecycle.Ready).Grade)
	require.Equal(t, none, look(80*time.Second, 0, 90*time.Second), "it is known")
	require.Equal(t, none, look(0, 0, 0))
	require.Contains(t, look(0, 0, time.Minute)[0], "worker=n/p/2 workers=1 ahead=1m0s")
}
