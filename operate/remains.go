package operate

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/timeline"
	"github.com/troupe-run/troupe/store"
)

// Bounds of what is read about an execution that is not stored.
const (
	remainsJournal = 20 // entries of the journal
	remainsLetters = 20 // dead letters
)

// Remains says what is still known of an execution that is not stored: by the commands in the journal about it, by its dead letters, by
// its chain, if it was the first of that, and by the last runs in this node's memory. Each read is one range of an index.
func (q *executions) Remains(ctx context.Context, id messages.ExecutionID) (view.Remains, error) {
	v := view.Remains{Kept: q.cfg.Retains.Seconds(), Looked: []string{"journal", "dead letters", "retries", "runs in memory"}}
	if shut := q.cfg.Self.Gate(); shut != nil {
		return v, shut
	}
	page, err := q.cfg.Store.ReadJournal(ctx, store.JournalQuery{
		Kinds: []messages.JournalKind{messages.JournalOperator}, Subjects: []string{id.String()}, Newest: true, Limit: remainsJournal,
	})
	if err != nil {
		return v, err
	}
	v.Journal, v.More = page.Entries, !page.Next.IsZero()
	letters, err := q.cfg.Store.DeadLettersOf(ctx, id, remainsLetters)
	if err != nil {
		return v, err
	}
	for i := range letters {
		d := &letters[i]
		v.Letters = append(v.Letters, view.LetterRemains{ID: d.ID, At: d.At, Reason: d.Reason, Resolution: d.Resolution, Attempt: d.Attempt, Action: d.Action, Worker: d.Worker})
	}
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
	v.Was = len(v.Journal)+len(chain) > 0 || v.Run != nil || slices.ContainsFunc(letters, namesStored)
	v.Retention = v.Was && q.cfg.Retains > 0 && now.Sub(lastKnown(&v)) >= q.cfg.Retains
	return v, err
}

// namesStored reports whether a dead letter is of a stored execution: one that the store did not have when the message died, or whose
// message nobody could read, may name any.
func namesStored(d store.DeadLetter) bool {
	return d.Reason != "malformed" && d.Resolution != "missing"
}

// lastKnown is the last time at which something is known of the execution itself. A retry was requested after it had ended.
func lastKnown(v *view.Remains) (at time.Time) {
	if v.Run != nil {
		at = v.Run.FinishedAt
	}
	if len(v.Journal) > 0 && v.Journal[0].At.After(at) {
		at = v.Journal[0].At
	}
	if len(v.Letters) > 0 && v.Letters[0].At.After(at) {
		at = v.Letters[0].At
	}
	if at.IsZero() && len(v.Retries) > 0 {
		at = v.Retries[0].RequestedAt
	}
	return at
}
