package router

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
)

// fleet is a store with sessions that are bound, and one other node, which lives until it is dead.
type fleet struct {
	*listed
	bound []store.Session
	dead  bool
	away  bool
	stuck bool // what is asked to end has ended otherwise, and is still listed
}

func (f *fleet) ListNodes(context.Context) ([]store.Node, error) {
	n := store.Node{Incarnation: faraway, State: store.NodeActive}
	if f.dead {
		n.State = store.NodeDead
	}
	return []store.Node{n, {Incarnation: nearby, State: store.NodeActive}}, nil
}

func (f *fleet) BoundSessions(_ context.Context, q store.BoundQuery) (page []store.Session, err error) {
	if f.away {
		return nil, store.ErrUnavailable
	}
	for i := range f.bound {
		if s := f.bound[i]; (f.dead && s.Worker.Incarnation == faraway) == q.Ended && len(page) < q.Limit {
			page = append(page, s)
		}
	}
	return page, nil
}

func (f *fleet) GetSession(_ context.Context, pool, session string) (store.Session, error) {
	for i := range f.bound {
		if f.bound[i].Session == session {
			return f.bound[i], nil
		}
	}
	return store.Session{Pool: pool, Session: session, Epoch: 1}, nil
}

func (f *fleet) Unbind(_ context.Context, bindings []store.Binding) (int, error) {
	b := bindings[0]
	at := slices.IndexFunc(f.bound, func(s store.Session) bool {
		return s.Session == b.Session && s.Worker == b.Worker && s.Epoch == b.Epoch
	})
	if at < 0 || f.stuck {
		return 0, nil
	}
	f.bound = slices.Delete(f.bound, at, at+1)
	return 1, nil
}

// The bindings to the workers of a node that has been declared dead are ended in the store and recorded once, however this router came to
// know of them: the node may have been silent before, so that its workers had left the view, or have bound the session itself meanwhile, or
// have ended before this router began.
func TestTheBindingsOfADeadNodeEnd(t *testing.T) {
	t.Parallel()
	worker := messages.WorkerKey{Incarnation: faraway, Pool: "pool"}
	answer := func(r *Router) {
		for range 8 {
			r.World.(interface{ Answer() }).Answer()
		}
	}
	follow := func(r *Router, seen roster.WorkerSeen) {
		r.Start()
		answer(r)
		r.Report(faraway, &Report{First: true, Last: true, Events: []roster.Event{seen}})
		answer(r)
	}
	down := func(r *Router, f *fleet) {
		f.dead = true
		r.NodeDown(faraway)
	}
	for name, events := range map[string]func(r *Router, f *fleet, seen roster.WorkerSeen){
		"killed": func(r *Router, f *fleet, seen roster.WorkerSeen) {
			follow(r, seen)
			down(r, f)
		},
		"frozen: it was silent first": func(r *Router, f *fleet, seen roster.WorkerSeen) {
			follow(r, seen)
			r.Drop(faraway)
			answer(r)
			down(r, f)
		},
		"its sessions are being read": func(r *Router, f *fleet, seen roster.WorkerSeen) {
			follow(r, seen)
			r.Drop(faraway)
			down(r, f)
		},
		"it bound the session while it routed alone": func(r *Router, f *fleet, seen roster.WorkerSeen) {
			bound := f.bound
			f.bound = nil
			follow(r, seen)
			r.Drop(faraway)
			answer(r)
			f.bound = bound
			down(r, f)
		},
		"this router rested": func(r *Router, f *fleet, _ roster.WorkerSeen) {
			down(r, f)
			answer(r)
			r.Start()
		},
		"this router never heard of it": func(r *Router, f *fleet, _ roster.WorkerSeen) {
			f.dead = true
			r.Start()
		},
		"the store is away": func(r *Router, f *fleet, seen roster.WorkerSeen) {
			f.away = true
			f.dead = true
			r.Start()
			answer(r)
			f.away = false
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, w, rows := alone()
			f := &fleet{listed: rows, bound: []store.Session{
				{Pool: "pool", Session: "s", Epoch: 3, StartedEpoch: 1, FinishedEpoch: 3, Worker: worker, TouchedAt: w.Time},
				{Pool: "pool", Session: "own", Epoch: 1, StartedEpoch: 1, Worker: messages.WorkerKey{Incarnation: nearby, Pool: "pool"}, TouchedAt: w.Time},
			}}
			s.Config.Store = f
			others := len(f.bound) - 1
			var recorded []string
			s.Config.Journal = func(e messages.JournalEntry) {
				var d struct{ Epoch int64 }
				if e.Kind == messages.JournalSession && json.Unmarshal(e.Detail, &d) == nil {
					recorded = append(recorded, fmt.Sprint(e.Subject, " ", e.What, " ", e.Reason, " ", d.Epoch))
				}
			}
			r := New(s, &ordered{})
			events(r, f, idle(w, faraway))
			answer(r)
			w.Pass(2 * time.Second)
			answer(r)
			require.Equal(t, []string{"pool/s unbound worker_gone 3"}, recorded)
			require.Len(t, f.bound, others)
		})
	}
}

// However many bindings an ended node has left, they are ended page by page, and where none of a page ends, the store is left alone for a while.
func TestTheBindingsOfADeadNodeEndInPages(t *testing.T) {
	t.Parallel()
	for name, stuck := range map[string]bool{"they end": false, "they do not": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, w, rows := alone()
			f := &fleet{listed: rows, dead: true, stuck: stuck}
			for i := range 2*leftPage + 1 {
				f.bound = append(f.bound, store.Session{Pool: "pool", Session: fmt.Sprint(i), Epoch: 1, Worker: messages.WorkerKey{Incarnation: faraway, Pool: "pool"}})
			}
			s.Config.Store = f
			r := New(s, &ordered{})
			r.Start()
			if w.Answer(); stuck {
				w.Answer()
				require.Zero(t, w.Busy(), "it is not asked again at once")
				f.stuck = false
				w.Pass(2 * time.Second)
				w.Answer()
			}
			w.Answer()
			w.Answer()
			require.Empty(t, f.bound)
			require.Zero(t, r.left)
		})
	}
}
