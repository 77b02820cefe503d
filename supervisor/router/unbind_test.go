package router

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
)

// binding is a store with sessions that are bound until their bindings are ended.
type binding struct {
	*listed
	worker messages.WorkerKey
	ended  map[string]bool
	away   bool
	read   []string
}

func (b *binding) GetSession(_ context.Context, pool, session string) (store.Session, error) {
	s := store.Session{Pool: pool, Session: session, Epoch: 1, StartedEpoch: 1, FinishedEpoch: 1, Worker: b.worker}
	if b.read = append(b.read, session+" bound"); b.ended[session] {
		s.Worker, b.read[len(b.read)-1] = messages.WorkerKey{}, session+" unbound"
	}
	return s, nil
}

func (b *binding) Unbind(_ context.Context, bindings []store.Binding) (int, error) {
	if b.away {
		return 0, store.ErrUnavailable
	}
	b.ended[bindings[0].Session] = true
	return 1, nil
}

// A session that was read before the store had ended its binding would be bound again, to the worker's next process, and nobody were
// told that its state is lost.
func TestASessionIsReadOnceItsBindingHasEnded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reads, away bool // it is being read when its binding ends; the store is away then
		want        []string
	}{
		"it is asked for afterwards":  {want: []string{"a unbound", "b unbound"}},
		"it is being read":            {reads: true, want: []string{"a bound", "b bound", "a unbound", "b unbound"}},
		"the store is away":           {away: true, want: []string{"a unbound", "b unbound"}},
		"the store is away meanwhile": {reads: true, away: true, want: []string{"a bound", "b bound", "a unbound", "b unbound"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, w, rows := alone()
			worker := messages.WorkerKey{Incarnation: nearby, Pool: "pool"}
			sessions := &binding{listed: rows, worker: worker, ended: map[string]bool{}, away: c.away}
			s.Config.Store = sessions
			r := New(s, &ordered{})
			if c.reads {
				r.reload("a", true)
				r.reload("b", true)
			}
			for _, name := range []string{"a", "b"} {
				r.unbind(roster.Unbind{Session: name, Worker: worker, Epoch: 1, Reason: "worker_gone"})
				r.reload(name, true)
			}
			w.Answer()
			if c.away {
				w.Answer()
				require.Zero(t, w.Busy(), "the store is not asked again at once")
				require.NotContains(t, sessions.read, "a unbound")
				sessions.away = false
				w.Pass(2 * time.Second)
				require.Equal(t, 1, w.Busy(), "one call asks again for all")
			}
			for range 3 {
				w.Answer()
			}
			require.Equal(t, c.want, sessions.read)
			require.Empty(t, r.reloads.pending)
			require.Empty(t, r.reloads.reading)
			require.Empty(t, r.reloads.ending)
			require.Empty(t, r.reloads.behind)
			require.False(t, r.Unbinding())
		})
	}
}
