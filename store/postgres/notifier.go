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

// notifier tells the other nodes by NOTIFY what this one has stored, in transactions of its own. The server commits
// notifying transactions one at a time, each with its write to the disk, so a transaction that stores data should not
// notify. News that arrive during a transaction, or soon after it, share the next one. If the server does not take
// news, a later notification tells the others to look. News that are lost with this process are found when the others
// hear of its end.
type notifier struct {
	s     *core
	wake  chan struct{} // holds one
	mu    sync.Mutex
	pools map[string]struct{} // pools with new executions
	ended []messages.ExecutionID
	more  bool // there are more than are named
}

const (
	notifyGap    = 2 * time.Millisecond // between two transactions
	notifyWithin = 2 * time.Second      // for one
	notifyAgain  = time.Second          // after one that failed
	notifyMax    = 10_000               // executions named in one; above it the others are told to look
)

func newNotifier(s *core) *notifier {
	h := &notifier{s: s, wake: make(chan struct{}, 1), pools: map[string]struct{}{}}
	s.work.Go(h.run)
	return h
}

// requested adds pools with new executions.
func (h *notifier) requested(executions []store.Submitted) {
	h.mu.Lock()
	for i := range executions {
		if e := &executions[i].Execution; e.Status == messages.Requested {
			h.pools[e.Pool] = struct{}{}
		}
	}
	h.mu.Unlock()
	h.wakeUp()
}

// finished adds executions that ended.
func (h *notifier) finished(ids []messages.ExecutionID) {
	if len(ids) == 0 {
		return
	}
	h.mu.Lock()
	if room := notifyMax - len(h.ended); room < len(ids) {
		ids, h.more = ids[:room], true
	}
	h.ended = append(h.ended, ids...)
	h.mu.Unlock()
	h.wakeUp()
}

func (h *notifier) wakeUp() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// take returns the payloads for the collected news.
func (h *notifier) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	payloads := make([]string, 0, len(h.pools)+1)
	for _, pool := range slices.Sorted(maps.Keys(h.pools)) {
		payloads = append(payloads, payloadRequested+encodeText(pool))
	}
	payloads = append(payloads, finishedPayloads(h.ended)...)
	if h.more {
		payloads = append(payloads, payloadLook)
	}
	clear(h.pools)
	h.ended, h.more = h.ended[:0], false
	return payloads
}

// run sends until the store closes, and then sends the rest.
func (h *notifier) run() {
	for {
		select {
		case <-h.s.quit:
			_ = h.tell(h.take()) // if this fails, the others look when this node has ended
			return
		case <-h.wake:
		}
		gap := notifyGap
		if h.tell(h.take()) != nil {
			gap = notifyAgain
			h.tellToLook()
		}
		select {
		case <-h.s.quit:
		case <-time.After(gap):
		}
	}
}

// tellToLook makes the next notification tell the others to look.
func (h *notifier) tellToLook() {
	h.mu.Lock()
	h.more = true
	h.mu.Unlock()
	h.wakeUp()
}

// tell sends the payloads. They need not survive a crash of the server, because its listeners do not, so the commit
// does not wait for the disk.
func (h *notifier) tell(payloads []string) error {
	if len(payloads) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), notifyWithin)
	defer cancel()
	batch := &pgx.Batch{}
	batch.Queue("SELECT set_config('synchronous_commit', 'off', true)")
	queueNotify(batch, h.s.channel(), payloads)
	return h.s.pool.SendBatch(ctx, batch).Close()
}
