package peers

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
)

// lines keeps what is logged.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestTheActorShowsHowPeersStand(t *testing.T) {
	t.Parallel()
	a, b, c := open(t), open(t), open(t)
	log := &lines{}
	system := actors.NewSystem(hclog.NewNullLogger())
	pid, err := system.Spawn(system, NewActor(ActorConfig{
		System: system, Network: a.Network, Every: time.Second, Logger: hclog.New(&hclog.LoggerOptions{Output: log}),
	}))
	require.NoError(t, err)
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, system.StopAndWait(ctx, pid))
	}()
	shows := func(state string) actors.Info {
		t.Helper()
		var info actors.Info
		require.Eventually(t, func() bool {
			info, _ = system.Registry.Get("peers")
			return info.State == state
		}, patience, time.Millisecond, "want %s", state)
		return info
	}
	shows("0 of 0 reached")
	introduce(a, b, c)
	require.Empty(t, shows("2 of 2 reached").Why)
	gone := time.Now()
	c.end()
	info := shows("1 of 2 reached")
	require.Contains(t, info.Why, "n2 at "+c.Address()+" is suspect since ")
	require.WithinRange(t, info.Since, gone, time.Now())
	require.Equal(t, "peers", info.Kind)
	a.Forget(c.own)
	require.Empty(t, shows("1 of 1 reached").Why)
	require.Contains(t, log.String(), "peer is suspect: node=n2")
}
