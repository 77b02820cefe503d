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

// herald tells the other nodes by NOTIFY what this one has stored, in transactions of its own. The server commits
// notifying transactions one at a time, each with its write to the disk, so a transaction that stores data should not
// notify. News that arrive during a transaction, or soon after it, share the next one. If the server does not take
// news, a later notification tells the others to look. News that are lost with this process are found when the others
// hear of its end.
type herald struct {
	s     *core
	wake  chan struct{} // holds one
	mu    sync.Mutex
	pools map[string]struct{} // pools with new executions
	ended []messages.ExecutionID
	more  bool // there are more than are named
}

const (
	heraldGap    = 2 * time.Millisecond // between two transactions
	heraldWithin = 2 * time.Second      // for one
	heraldAgain  = time.Second          // after one that failed
	heraldMax    = 10_000               // executions named in one; above it the others are told to look
)

func newHerald(s *core) *herald {
	h := &herald{s: s, wake: make(chan struct{}, 1), pools: map[string]struct{}{}}
	s.work.Go(h.run)
	return h
}

// requested adds pools with new executions.
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

// finished adds executions that ended.
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

// take returns the payloads for the collected news.
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

// run sends until the store closes, and then sends the rest.
func (h *herald) run() {
	for {
		select {
		case <-h.s.quit:
			_ = h.tell(h.take()) // if this fails, the others look when this node has ended
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

// missed makes the next notification tell the others to look.
func (h *herald) missed() {
	h.mu.Lock()
	h.more = true
	h.mu.Unlock()
	h.stir()
}

// tell sends the payloads. They need not survive a crash of the server, because its listeners do not, so the commit
// does not wait for the disk.
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
