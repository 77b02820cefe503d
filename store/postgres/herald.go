package postgres

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// herald tells the other nodes of what this one has stored, by NOTIFY. It has transactions of its own for that: the server lets
// those that notify commit one at a time, each with its write to the disk, so that no transaction that stores anything should be
// one of them. What comes while one is under way, or soon after it, goes together with the next. What the server did not take is
// made up for by a later word to look; what is lost with this process, when the others hear of its end.
type herald struct {
	s     *core
	wake  chan struct{} // holds one
	mu    sync.Mutex
	pools map[string]struct{} // that have something new
	ended []messages.ExecutionID
	more  bool // there is more than is named
}

const (
	heraldGap    = 2 * time.Millisecond // between two transactions
	heraldWithin = 2 * time.Second      // for one
	heraldAgain  = time.Second          // after one that failed
	heraldMax    = 10_000               // executions named in one; of more, the others are told to look
)

func newHerald(s *core) *herald {
	h := &herald{s: s, wake: make(chan struct{}, 1), pools: map[string]struct{}{}}
	s.work.Go(h.run)
	return h
}

// requested tells of pools that have something new.
func (h *herald) requested(executions []store.Submitted) {
	h.mu.Lock()
	for i := range executions {
		if e := &executions[i].Execution; e.Status == messages.Requested {
			h.pools[e.Pool] = struct{}{}
		}
	}
	h.mu.Unlock()
	h.stir()
}

// finished tells of executions that have ended.
func (h *herald) finished(ids []messages.ExecutionID) {
	if len(ids) == 0 {
		return
	}
	h.mu.Lock()
	if room := heraldMax - len(h.ended); room < len(ids) {
		ids, h.more = ids[:room], true
	}
	h.ended = append(h.ended, ids...)
	h.mu.Unlock()
	h.stir()
}

func (h *herald) stir() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// take returns the words for what has gathered.
func (h *herald) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	words := make([]string, 0, len(h.pools)+1)
	for _, pool := range slices.Sorted(maps.Keys(h.pools)) {
		words = append(words, wordRequested+encodeText(pool))
	}
	words = append(words, finishedWords(h.ended)...)
	if h.more {
		words = append(words, wordLook)
	}
	clear(h.pools)
	h.ended, h.more = h.ended[:0], false
	return words
}

// run tells until the store closes, and then what is left.
func (h *herald) run() {
	for {
		select {
		case <-h.s.quit:
			_ = h.tell(h.take()) // the others look when this node has ended
			return
		case <-h.wake:
		}
		gap := heraldGap
		if h.tell(h.take()) != nil {
			gap = heraldAgain
			h.missed()
		}
		select {
		case <-h.s.quit:
		case <-time.After(gap):
		}
	}
}

// missed has the others look, for they were not told what there is.
func (h *herald) missed() {
	h.mu.Lock()
	h.more = true
	h.mu.Unlock()
	h.stir()
}

// tell sends the words. They need not outlive a crash of the server, as its listeners do not, so nothing waits for the disk.
func (h *herald) tell(words []string) error {
	if len(words) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), heraldWithin)
	defer cancel()
	batch := &pgx.Batch{}
	batch.Queue("SELECT set_config('synchronous_commit', 'off', true)")
	queueNotify(batch, h.s.channel(), words)
	return h.s.pool.SendBatch(ctx, batch).Close()
}
