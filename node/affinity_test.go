package node_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/operate/view"
)

// A session that has idled out is told as such, by its strict_fail and to who looks; and what fails for its session is
// counted as well as what is placed.
func TestAnExpiredSessionIsToldAndCounted(t *testing.T) {
	t.Parallel()
	hold := newGate()
	const idle = 500 * time.Millisecond
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"noop": noop, "hold": hold.run})(c)
		c.SessionTimeout = idle
	}, goPack(t, map[string]string{"noop": "", "hold": ""}))
	affinity := func() string {
		v, err := k.Session(t.Context(), "go", "s")
		require.NoError(t, err)
		return v.Affinity
	}
	running := k.submit("t.hold", nil, session("s", messages.AffinityStrict))
	hold.next(t)
	require.Equal(t, view.AffinityBound, affinity())
	require.Equal(t, messages.CodeSessionBusy, code(k.run("t.noop", nil, session("s", messages.AffinityStrictFail))))
	close(hold.open)
	require.Equal(t, messages.Completed, k.await(running).Status)
	// The router counts from when it heard of the run's end, the store from the end itself. What is placed now it hears later.
	require.Equal(t, messages.Completed, k.run("t.noop", nil).Status)
	heard := time.Now()
	k.until("it has idled out, for the router too", func() bool { return affinity() == view.AffinityExpired && time.Since(heard) > idle })
	e := k.run("t.noop", nil, session("s", messages.AffinityStrictFail))
	require.Equal(t, messages.CodeSessionExpired, code(e))
	k.until("its binding is gone", func() bool { return affinity() == view.NoAffinity })
	shown := k.scrape()
	require.Contains(t, shown, `troupe_session_affinity_total{pool="go",result="miss"} 1`)
	require.Contains(t, shown, `troupe_session_affinity_total{pool="go",result="expired"} 1`)
}
