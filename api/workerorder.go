package api

import (
	"cmp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
)

// orderOf is the order of workers that a query asks for.
func orderOf(q query) (workerOrder, error) {
	switch text := q.text("order"); text {
	case "", "id":
		return workersByID, nil
	case "troubled":
		return troubledFirst, nil
	default:
		return nil, invalid("order must be id or troubled, got %q", clip(text))
	}
}

// workerPage returns the page of a filter's workers after a worker's place in an order.
func workerPage(all []view.Worker, f *workerFilter, order workerOrder, after string, limit int) (page []view.Worker, next string, err error) {
	all = slices.DeleteFunc(slices.Clone(all), func(w view.Worker) bool { return !f.has(&w) })
	places := make([]workerPlace, len(all))
	for i := range all {
		places[i] = order(&all[i])
	}
	sort.Sort(placed{all, places})
	from := 0
	if after != "" {
		last, err := parsePlace(after)
		if err != nil {
			return nil, "", err
		}
		from = sort.Search(len(all), func(i int) bool { return places[i].compare(last) > 0 })
	}
	page = all[from:min(from+limit, len(all))]
	if from+limit < len(all) {
		next = cursor(places[from+limit-1].String())
	}
	return orEmpty(page), next, nil
}

// workerPlace is where a worker stands in a list. Its rank comes first, then the parts of its id, so that slot 10 follows slot 9.
type workerPlace struct {
	rank int
	id   messages.WorkerID
}

// workerOrder gives each worker its place.
type workerOrder func(*view.Worker) workerPlace

func workersByID(w *view.Worker) workerPlace { return workerPlace{id: w.ID} }

// troubledFirst puts workers that do not work as they should before the others. A worker that changes between two pages may be passed over.
func troubledFirst(w *view.Worker) workerPlace { return workerPlace{rank: rankOf(w), id: w.ID} }

func (p workerPlace) compare(q workerPlace) int {
	return cmp.Or(cmp.Compare(p.rank, q.rank), compareWorkers(p.id, q.id))
}

// String is the place as a cursor has it.
func (p workerPlace) String() string { return strconv.Itoa(p.rank) + " " + string(p.id) }

func parsePlace(text string) (workerPlace, error) {
	rank, id, ok := strings.Cut(text, " ")
	n, err := strconv.Atoi(rank)
	if !ok || err != nil {
		return workerPlace{}, invalid("cursor is none of a list of workers; pass on next_cursor as it came, or leave cursor out")
	}
	return workerPlace{rank: n, id: messages.WorkerID(id)}, nil
}

// placed sorts workers by their places.
type placed struct {
	workers []view.Worker
	places  []workerPlace
}

func (p placed) Len() int           { return len(p.workers) }
func (p placed) Less(i, j int) bool { return p.places[i].compare(p.places[j]) < 0 }
func (p placed) Swap(i, j int) {
	p.workers[i], p.workers[j] = p.workers[j], p.workers[i]
	p.places[i], p.places[j] = p.places[j], p.places[i]
}

func compareWorkers(a, b messages.WorkerID) int {
	nodeA, poolA, slotA, okA := a.Split()
	nodeB, poolB, slotB, okB := b.Split()
	if !okA || !okB {
		return cmp.Compare(a, b)
	}
	return cmp.Or(cmp.Compare(nodeA, nodeB), cmp.Compare(poolA, poolB), cmp.Compare(slotA, slotB))
}

// Ranks of workers: what is in trouble comes before what is not.
const (
	rankFailed  = iota // it takes no work, and nobody wanted that
	rankWarned         // it works, but not as it should; or it is cordoned
	rankHealthy        // it works, rests, starts or ends
)

// rankOf says how much a worker is in trouble: the lower, the more. One that neither works nor rests is so if it has failed: it starts anew,
// waits for that, or has been given up.
func rankOf(w *view.Worker) int {
	serves := w.State == lifecycle.Ready.String() || w.State == lifecycle.Busy.String()
	switch {
	case w.Stale, w.State == lifecycle.Degraded.String(), !serves && w.LastError != "", serves && w.Grade == health.Unhealthy.String():
		return rankFailed
	case w.Grade == health.Degraded.String(), w.Cordoned:
		return rankWarned
	}
	return rankHealthy
}
