package api

import (
	"context"
	"encoding/json"
	"maps"
	"sync"
	"time"

	"github.com/troupe-run/troupe/api/hub"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/live"
)

// topicWorkersOf is the list of workers, without what only one worker's own page shows.
func topicWorkersOf(s *server, q query) (func(context.Context) (any, error), func(*hub.Change, func(string) bool) bool, error) {
	limit, err := q.number("limit", 1, topicWorkers, topicWorkers)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context) (any, error) {
		list, err := s.workerList(ctx, q, "", limit)
		if err != nil {
			return nil, err
		}
		brieflyWorkers(list.Workers)
		return list, nil
	}, nil, nil
}

// brieflyWorkers leaves out what workers report of their health, and when they were seen, but for those of which that is not now: it would
// change all of them each time, and the event has it.
func brieflyWorkers(workers []view.Worker) {
	for i := range workers {
		w := &workers[i]
		w.Report = nil
		if !w.Stale {
			w.SeenAt = time.Time{}
		}
	}
}

// workersField is the field of a WorkerList that has the workers.
const workersField = "workers"

// workerEntries returns what makes entries of lists of workers.
func workerEntries(s *server) func(answer any) ([]live.Entry, error) {
	return func(answer any) ([]live.Entry, error) {
		return s.workerTexts.entries(*answer.(*WorkerList), time.Now())
	}
}

// workerKept is for how long the text of a worker is kept that no list has any more.
const workerKept = 10 * time.Second

// workerText is a worker with the text of its entry, and when a list had it last.
type workerText struct {
	of    view.Worker
	value json.RawMessage
	used  time.Time
}

// workerTexts are the workers of the followed lists. One that is as it was keeps its text: most are, and to write a thousand anew is most of
// what such a topic would cost. Several topics may have the same workers.
type workerTexts struct {
	mu   sync.Mutex
	byID map[messages.WorkerID]*workerText
	cut  time.Time // when those that no list has were dropped
}

func (k *workerTexts) entries(list WorkerList, now time.Time) ([]live.Entry, error) {
	workers := list.Workers
	list.Workers = []view.Worker{}
	text, err := json.Marshal(&list)
	if err != nil {
		return nil, err
	}
	rest, err := live.Split(text, nil)
	if err != nil || len(workers) == 0 {
		return rest, err
	}
	entries := make([]live.Entry, 0, len(workers)+len(rest))
	if entries, err = k.add(entries, workers, now); err != nil {
		return nil, err
	}
	for _, e := range rest {
		if e.Key != workersField {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// add adds the entries of workers.
func (k *workerTexts) add(entries []live.Entry, workers []view.Worker, now time.Time) ([]live.Entry, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byID == nil {
		k.byID = make(map[messages.WorkerID]*workerText, len(workers))
	}
	names := make(live.Names, len(workers))
	for i := range workers {
		value, err := k.valueOf(&workers[i], now)
		if err != nil {
			return nil, err
		}
		entries = append(entries, live.Entry{Key: names.Key(workersField, string(workers[i].ID)), Value: value})
	}
	if now.Sub(k.cut) >= workerKept {
		k.cut = now
		maps.DeleteFunc(k.byID, func(_ messages.WorkerID, t *workerText) bool { return now.Sub(t.used) >= workerKept })
	}
	return entries, nil
}

func (k *workerTexts) valueOf(w *view.Worker, now time.Time) (json.RawMessage, error) {
	t := k.byID[w.ID]
	if t == nil {
		t = &workerText{}
		k.byID[w.ID] = t
	}
	t.used = now
	if t.value == nil || !t.of.Same(w) {
		value, err := json.Marshal(w)
		if err != nil {
			return nil, err
		}
		t.of, t.value = *w, value
	}
	return t.value, nil
}
