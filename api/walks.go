package api

import (
	"context"
	"maps"
	"time"
)

// walks keeps answers that took long, so that many pages which ask the same cost one walk over stored rows, and one is under way at a time.
type walks[T any] struct {
	turn chan struct{}        // holds one while somebody walks
	by   map[string]walked[T] // by the query; whoever has the turn reads and writes it
}

type walked[T any] struct {
	answer T
	until  time.Time // how long it serves
}

const (
	walksMax   = 64                   // answers that are kept
	walksFast  = 5 * time.Millisecond // an answer that took less serves nobody else
	walksShare = 20                   // an answer serves this many times as long as it took,
	walksAge   = 30 * time.Second     // but no longer
)

func newWalks[T any]() *walks[T] {
	return &walks[T]{turn: make(chan struct{}, 1), by: map[string]walked[T]{}}
}

// get returns a kept answer, or has a new one made.
func (w *walks[T]) get(ctx context.Context, query string, walk func(context.Context) (T, error)) (answer T, err error) {
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return answer, context.Cause(ctx)
	}
	began := time.Now()
	if kept, ok := w.by[query]; ok && began.Before(kept.until) {
		return kept.answer, nil
	}
	answer, err = walk(ctx)
	if took := time.Since(began); err == nil && took >= walksFast {
		w.keep(query, walked[T]{answer, time.Now().Add(min(walksShare*took, walksAge))})
	}
	return answer, err
}

// keep keeps an answer. Where there is no room, those that are over make some, or all do.
func (w *walks[T]) keep(query string, answer walked[T]) {
	now := time.Now()
	if len(w.by) >= walksMax {
		maps.DeleteFunc(w.by, func(_ string, kept walked[T]) bool { return !now.Before(kept.until) })
	}
	if len(w.by) >= walksMax {
		clear(w.by)
	}
	w.by[query] = answer
}
