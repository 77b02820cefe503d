package operate

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/store"
)

// Bounds of a session in detail.
const (
	sessionQueue   = 200
	sessionPage    = 1000
	sessionJournal = 100
)

// SessionDetail returns one session with what waits in it and what happened to it. It looks at a bounded number of its executions, the
// newest first.
func (s *sessions) SessionDetail(ctx context.Context, pool, name string) (view.SessionDetail, error) {
	one, err := s.Session(ctx, pool, name)
	if err != nil {
		return view.SessionDetail{}, err
	}
	v := view.SessionDetail{Session: one, Queue: []view.SessionWork{}, Journal: []messages.JournalEntry{}}
	if err := s.queue(ctx, &v); err != nil {
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
		var d struct {
			Epoch  int64             `json:"epoch"`
			Worker messages.WorkerID `json:"worker"`
		}
		if e := &v.Journal[i]; e.What == "bound" && json.Unmarshal(e.Detail, &d) == nil && d.Epoch == v.Epoch && d.Worker != "" {
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
func (s *sessions) queue(ctx context.Context, v *view.SessionDetail) error {
	f := store.Filter{Pool: v.Pool, Session: v.Session.Session.Session, Limit: sessionPage, Statuses: slices.DeleteFunc(messages.Statuses(), messages.Status.Terminal)}
	for walked := 0; ; {
		page, err := s.cfg.Store.List(ctx, f)
		if err != nil {
			return err
		}
		for i := range page.Executions {
			v.Queue = append(v.Queue, workOf(&page.Executions[i]))
		}
		if over := len(v.Queue) - sessionQueue; over > 0 {
			v.Queue, v.QueueMore = append([]view.SessionWork{}, v.Queue[over:]...), true
		}
		walked += max(page.Searched.Walked, len(page.Executions))
		v.QueueSearch = page.Next != 0
		if f.Before = page.Next; page.Next == 0 || walked >= store.ListWalk {
			slices.Reverse(v.Queue)
			return nil
		}
	}
}

func workOf(e *messages.Execution) view.SessionWork {
	return view.SessionWork{
		Execution: e.ID, Action: e.Action, Status: e.Status, Affinity: e.Affinity, Priority: e.Priority, Attempt: e.Attempt, Worker: e.WorkerID,
		RequestedAt: e.RequestedAt, RunAt: e.RunAt,
	}
}
