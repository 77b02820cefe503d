package operate

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/timeline"
	"github.com/troupe-run/troupe/store"
)

// remainsJournal bounds the entries of the journal about an execution that is not stored.
const remainsJournal = 20

// Remains says what is still known of an execution that is not stored: by the commands in the journal about it, by its chain, if it was the
// first of that, and by the last runs in this node's memory. Each read is one range of an index.
func (q *executions) Remains(ctx context.Context, id messages.ExecutionID) (view.Remains, error) {
	v := view.Remains{Kept: q.cfg.Retains.Seconds(), Looked: []string{"journal", "retries", "runs in memory"}}
	if shut := q.cfg.Self.Gate(); shut != nil {
		return v, shut
	}
	page, err := q.cfg.Store.ReadJournal(ctx, store.JournalQuery{
		Kinds: []messages.JournalKind{messages.JournalOperator}, Subject: id.String(), Newest: true, Limit: remainsJournal,
	})
	if err != nil {
		return v, err
	}
	v.Journal, v.More = page.Entries, !page.Next.IsZero()
	chain, err := q.cfg.Store.Chain(ctx, id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return v, err
	}
	v.RetriesN = len(chain)
	for i := range chain[:min(len(chain), timeline.LinksMax)] {
		e := &chain[i]
		v.Retries = append(v.Retries, view.RetryRemains{ID: e.ID, N: e.RetryCount + 1, Action: e.Action, Status: e.Status, RequestedAt: e.RequestedAt})
	}
	if run, worker, found := q.cfg.Runs.Find(id); found {
		v.Run, v.Worker = &run, worker
	}
	now, err := q.cfg.Store.Now(ctx)
	v.Was = len(v.Journal)+len(chain) > 0 || v.Run != nil
	v.Retention = v.Was && q.cfg.Retains > 0 && now.Sub(lastKnown(&v)) >= q.cfg.Retains
	return v, err
}

// lastKnown is the last time at which something is known of the execution itself. A retry was requested after it had ended.
func lastKnown(v *view.Remains) (at time.Time) {
	if v.Run != nil {
		at = v.Run.FinishedAt
	}
	if len(v.Journal) > 0 && v.Journal[0].At.After(at) {
		at = v.Journal[0].At
	}
	if at.IsZero() && len(v.Retries) > 0 {
		at = v.Retries[0].RequestedAt
	}
	return at
}
