package api

import (
	"context"
	"encoding/json"
	"maps"
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

// workerEntries returns what makes entries of lists of workers, one after another.
func workerEntries() func(answer any) ([]live.Entry, error) {
	rows := workerRows{}
	return func(answer any) ([]live.Entry, error) { return rows.entries(*answer.(*WorkerList)) }
}

// workerRow is a worker with the text of its entry. Round is the list that had it last.
type workerRow struct {
	of    view.Worker
	value json.RawMessage
	round int
}

// workerRows are the workers of the last list. One that is as it was keeps its text: most are, and to write a thousand anew is most of what
// the topic would cost.
type workerRows struct {
	byID  map[messages.WorkerID]*workerRow
	round int
}

func (k *workerRows) entries(list WorkerList) ([]live.Entry, error) {
	workers := list.Workers
	list.Workers = []view.Worker{}
	text, err := json.Marshal(&list)
	if err != nil {
		return nil, err
	}
	rest, err := live.Split(text, nil)
	if err != nil || len(workers) == 0 {
		k.byID = nil
		return rest, err
	}
	if k.byID == nil {
		k.byID = make(map[messages.WorkerID]*workerRow, len(workers))
	}
	k.round++
	entries, names := make([]live.Entry, 0, len(workers)+len(rest)), make(live.Names, len(workers))
	for i := range workers {
		value, err := k.valueOf(&workers[i])
		if err != nil {
			return nil, err
		}
		entries = append(entries, live.Entry{Key: names.Key(workersField, string(workers[i].ID)), Value: value})
	}
	if len(k.byID) > len(names) {
		maps.DeleteFunc(k.byID, func(_ messages.WorkerID, row *workerRow) bool { return row.round != k.round })
	}
	for _, e := range rest {
		if e.Key != workersField {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

func (k *workerRows) valueOf(w *view.Worker) (json.RawMessage, error) {
	row := k.byID[w.ID]
	if row == nil {
		row = &workerRow{}
		k.byID[w.ID] = row
	}
	row.round = k.round
	if row.value == nil || !row.of.Same(w) {
		value, err := json.Marshal(w)
		if err != nil {
			return nil, err
		}
		row.of, row.value = *w, value
	}
	return row.value, nil
}
