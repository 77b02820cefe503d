package operate

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/journal"
	"github.com/troupe-run/troupe/store"
)

// Bounds of a session in detail.
const (
	sessionQueue   = 200
	sessionPage    = 1000
	sessionTime    = 60 * time.Millisecond // of looking for its queue
	sessionJournal = 100
)

// SessionDetail returns one session with what waits in it and what happened to it. It looks at its executions, the newest first, as one
// page of a list may, or for sessionTime.
func (s *sessions) SessionDetail(ctx context.Context, pool, name string) (view.SessionDetail, error) {
	return s.detail(ctx, pool, name, sessionTime)
}

// detail looks for so long, at one page of its executions at least.
func (s *sessions) detail(ctx context.Context, pool, name string, within time.Duration) (view.SessionDetail, error) {
	one, err := s.Session(ctx, pool, name)
	if err != nil {
		return view.SessionDetail{}, err
	}
	v := view.SessionDetail{Session: one, Queue: []view.SessionWork{}, Journal: []messages.JournalEntry{}}
	if err := s.queue(ctx, &v, within); err != nil {
		return v, err
	}
	page, err := s.cfg.Store.ReadJournal(ctx, store.JournalQuery{
		Kinds: []messages.JournalKind{messages.JournalSession}, Subjects: []string{pool + "/" + name}, Newest: true, Limit: sessionJournal,
	})
	v.Journal, v.JournalMore = append(v.Journal, page.Entries...), !page.Next.IsZero()
	v.WorkerID = s.boundTo(&v)
	return v, err
}

// boundTo is the id of the worker that a session is bound to: as the entry of its binding has it, or by the name of its node.
func (s *sessions) boundTo(v *view.SessionDetail) messages.WorkerID {
	if v.Worker.IsZero() {
		return ""
	}
	for i := range v.Journal {
		var d journal.SessionDetail
		if e := &v.Journal[i]; e.What == journal.SessionBound && json.Unmarshal(e.Detail, &d) == nil && d.Epoch == v.Epoch && d.Worker != "" {
			return d.Worker
		}
	}
	name := s.cfg.Members.NameOf(v.Worker.Incarnation)
	if v.Worker.Incarnation == s.cfg.Incarnation {
		name = s.cfg.Self.Label()
	}
	if name == "" {
		return ""
	}
	return messages.NewWorkerID(name, v.Worker.Pool, v.Worker.Slot)
}

// queue reads what of a session has not ended, and keeps the oldest.
func (s *sessions) queue(ctx context.Context, v *view.SessionDetail, within time.Duration) error {
	f := store.Filter{Pools: []string{v.Pool}, Sessions: []string{v.Session.Session.Session}, Limit: sessionPage, Statuses: slices.DeleteFunc(messages.Statuses(), messages.Status.Terminal)}
	reached, err := walk(ctx, s.cfg.Store, f, store.ListWalk, within, func(e *messages.Execution) { v.Queue = append(v.Queue, workOf(e)) })
	if err != nil {
		return err
	}
	if over := len(v.Queue) - sessionQueue; over > 0 {
		v.Queue, v.QueueMore = append([]view.SessionWork{}, v.Queue[over:]...), true
	}
	v.QueueSearch = reached.More != store.MoreEnd
	slices.Reverse(v.Queue)
	return nil
}

func workOf(e *messages.Execution) view.SessionWork {
	return view.SessionWork{
		Execution: e.ID, Action: e.Action, Status: e.Status, Affinity: e.Affinity, Priority: e.Priority, Attempt: e.Attempt, Worker: e.WorkerID,
		RequestedAt: e.RequestedAt, RunAt: e.RunAt,
	}
}
