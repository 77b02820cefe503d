package interest

import (
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Bounds of a Book.
const (
	LastsMax = 90 * time.Second // of one entry: the longest pause of a waiting caller, and what a look and the way take
	NodeMax  = 1 << 14          // entries of one node: ten times what a busy node waits for at once
	BookMax  = 1 << 16          // entries of all nodes: 10 MB
	OverTime = 2 * time.Second  // for which an outcome is wanted still that may be this node's own: its hint can come before its recorder tells it
)

// Book has who wants which outcomes. An entry takes its place until its time is over, also when its outcome was told before: so the work
// and the memory of a book are bounded by what was noted, whatever ends meanwhile.
type Book struct {
	begin   time.Time
	swept   int64 // the seconds since begin that are over
	wanting map[messages.ExecutionID][]want
	due     map[int64][]place // by the second in which they end, or in which that is looked at again
	over    []ending          // the first to be struck out first
	of      map[messages.Incarnation]int
	places  int
}

// want is a node that wants an outcome, until a time.
type want struct {
	by    messages.Incarnation
	until time.Time
}

// ending is an execution that has ended, and when it is struck out.
type ending struct {
	id messages.ExecutionID
	at time.Time
}

// place is what an entry takes.
type place struct {
	id messages.ExecutionID
	by messages.Incarnation
}

// NewBook returns an empty book.
func NewBook(now time.Time) *Book {
	return &Book{begin: now, wanting: map[messages.ExecutionID][]want{}, due: map[int64][]place{}, of: map[messages.Incarnation]int{}}
}

// Note notes that a node wants an outcome for a time, and reports whether there was room. What is wanted already is wanted for the longer
// of both times.
func (b *Book) Note(now time.Time, by messages.Incarnation, id messages.ExecutionID, lasts time.Duration) bool {
	b.sweep(now)
	until := now.Add(min(lasts, LastsMax))
	list := b.wanting[id]
	for i := range list {
		if list[i].by == by {
			list[i].until = later(list[i].until, until)
			return true
		}
	}
	if b.of[by] >= NodeMax || b.places >= BookMax {
		return false
	}
	b.wanting[id] = append(list, want{by, until})
	b.of[by]++
	b.places++
	b.take(place{id, by}, until)
	return true
}

// take has the place looked at in the second after until.
func (b *Book) take(p place, until time.Time) {
	second := max(b.second(until), b.swept) + 1
	b.due[second] = append(b.due[second], p)
}

// Told returns which nodes want the outcome of an execution, and strikes that out.
func (b *Book) Told(now time.Time, id messages.ExecutionID) []messages.Incarnation {
	b.sweep(now)
	var nodes []messages.Incarnation
	for _, w := range b.wanting[id] {
		if w.until.After(now) {
			nodes = append(nodes, w.by)
		}
	}
	delete(b.wanting, id)
	return nodes
}

// Over says that an execution has ended, on whatever node. After OverTime nobody wants its outcome of this one.
func (b *Book) Over(now time.Time, id messages.ExecutionID) {
	b.sweep(now)
	at, shorter := now.Add(OverTime), false
	list := b.wanting[id]
	for i := range list {
		if list[i].until.After(at) {
			list[i].until, shorter = at, true
		}
	}
	if shorter {
		b.over = append(b.over, ending{id, at})
	}
}

// Forget strikes out all that a node wants: it has ended.
func (b *Book) Forget(by messages.Incarnation) {
	if b.of[by] == 0 {
		return
	}
	for id, list := range b.wanting {
		b.keep(id, slices.DeleteFunc(list, func(w want) bool { return w.by == by }))
	}
	for second, list := range b.due {
		if b.due[second] = slices.DeleteFunc(list, func(p place) bool { return p.by == by }); len(b.due[second]) == 0 {
			delete(b.due, second)
		}
	}
	b.places -= b.of[by]
	delete(b.of, by)
}

// Len is how many executions somebody wants the outcome of. Some of them may be over.
func (b *Book) Len() int { return len(b.wanting) }

// sweep strikes out what is over.
func (b *Book) sweep(now time.Time) {
	for ; len(b.over) > 0 && !b.over[0].at.After(now); b.over = b.over[1:] {
		id := b.over[0].id
		b.keep(id, slices.DeleteFunc(b.wanting[id], func(w want) bool { return !w.until.After(now) }))
	}
	last := b.second(now)
	for ; b.swept < last && b.places > 0; b.swept++ {
		b.end(b.swept+1, now)
	}
	b.swept = max(b.swept, last)
}

// end frees the places of one second, but for those that are wanted for longer by now.
func (b *Book) end(second int64, now time.Time) {
	list := b.due[second]
	delete(b.due, second)
	for _, p := range list {
		wants := b.wanting[p.id]
		at := slices.IndexFunc(wants, func(w want) bool { return w.by == p.by })
		if at >= 0 && wants[at].until.After(now) {
			b.take(p, wants[at].until)
			continue
		}
		if at >= 0 {
			b.keep(p.id, slices.Delete(wants, at, at+1))
		}
		b.places--
		if b.of[p.by]--; b.of[p.by] == 0 {
			delete(b.of, p.by)
		}
	}
}

func (b *Book) keep(id messages.ExecutionID, wants []want) {
	if len(wants) == 0 {
		delete(b.wanting, id)
		return
	}
	b.wanting[id] = wants
}

func (b *Book) second(at time.Time) int64 { return int64(at.Sub(b.begin) / time.Second) }

func later(x, y time.Time) time.Time {
	if x.After(y) {
		return x
	}
	return y
}
