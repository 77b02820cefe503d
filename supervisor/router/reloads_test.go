package router

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/store"
)

// counted is a store that counts what it is asked for, and fails as told.
type counted struct {
	*listed
	asked map[string]int
	nodes int
	fails func(session string) error
}

func (c *counted) GetSession(_ context.Context, _, session string) (store.Session, error) {
	c.asked[session]++
	if err := c.fails(session); err != nil {
		return store.Session{}, err
	}
	return store.Session{}, store.ErrNotFound
}

func (c *counted) ListNodes(context.Context) ([]store.Node, error) {
	c.nodes++
	return nil, nil
}

func TestManySessionsAreReadInFewBatches(t *testing.T) {
	t.Parallel()
	s, w, rows := alone()
	c := &counted{listed: rows, asked: map[string]int{}, fails: func(string) error { return nil }}
	s.Config.Store = c
	r := New(s, &ordered{})
	const count = 1050
	for i := range count {
		r.reload(fmt.Sprint("s", i), i%2 == 0)
		r.reload(fmt.Sprint("s", i), i%2 == 0)
	}
	most, rounds := 0, 0
	for ; w.Busy() > 0; rounds++ {
		most = max(most, w.Busy())
		w.Answer()
	}
	require.Equal(t, reloadsOpen, most, "batches at the same time")
	require.Len(t, c.asked, count)
	for name, n := range c.asked {
		require.Equal(t, 1, n, name)
	}
	// The first two batches have one session each, because they begin with the first two calls.
	require.LessOrEqual(t, c.nodes, count/reloadBatch+3)
	require.Empty(t, r.reloads.pending)
	require.Zero(t, r.reloads.open)
}

func TestSessionsThatAreNotReadAreReadAgain(t *testing.T) {
	t.Parallel()
	broken := errors.New("a row that cannot be read")
	for name, c := range map[string]struct {
		err  error
		then int // how often the session behind it was asked for at first
	}{
		"one that cannot be read lets the others pass": {broken, 1},
		"no answer ends the batch":                     {store.ErrUnavailable, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, w, rows := alone()
			fails := true
			rows2 := &counted{listed: rows, asked: map[string]int{}, fails: func(session string) error {
				if fails && session == "bad" {
					return c.err
				}
				return nil
			}}
			s.Config.Store = rows2
			r := New(s, &ordered{})
			r.reload("first", true)
			r.reload("second", true)
			r.reload("bad", true)
			r.reload("behind", true)
			w.Answer()
			w.Answer()
			require.Equal(t, 1, rows2.asked["bad"])
			require.Equal(t, c.then, rows2.asked["behind"])
			require.Zero(t, w.Busy(), "it is not asked again at once")
			fails = false
			w.Pass(2 * time.Second)
			w.Answer()
			require.Equal(t, 2, rows2.asked["bad"])
			require.Equal(t, 1, rows2.asked["behind"])
			require.Empty(t, r.reloads.pending)
		})
	}
}
