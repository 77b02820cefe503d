package journal

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// LogMax bounds the entries that a node keeps while the store is away.
const LogMax = 10_000

// gapEvery is the time that one gap covers at least: a kind of which entries are dropped all the time makes few gaps.
const gapEvery = 10 * time.Second

// rate bounds how often a kind is recorded: burst at once, and every so many more.
type rate struct {
	burst float64
	each  time.Duration
}

// Marks of one node: so many at once, and then one in each MarkEach.
const (
	MarkBurst = 200
	MarkEach  = time.Second
)

// rates are the kinds that callers cause. The others are bounded by what the node does once a second.
var rates = map[messages.JournalKind]rate{
	messages.JournalSession:  {500, 500 * time.Millisecond},
	messages.JournalOperator: {2000, 200 * time.Millisecond},
	messages.JournalServer:   {200, time.Second},
	messages.JournalMark:     {MarkBurst, MarkEach},
}

// GapDetail is the detail of a gap: entries of the kind that is its subject are missing, from its At to Until.
type GapDetail struct {
	Until   time.Time `json:"until"`
	Entries int       `json:"entries"`
}

// Dropped is what a gap says in What.
const Dropped = "dropped"

// Log holds the entries of one incarnation that are not stored yet, in order. The zero value is empty.
type Log struct {
	entries []messages.JournalEntry
	number  int64 // of the last entry
	rooms   map[messages.JournalKind]room
	gaps    []gap
}

// room is what is left of a kind's rate.
type room struct {
	left float64
	at   time.Time
}

// gap counts the dropped entries of one kind.
type gap struct {
	kind      messages.JournalKind
	from, til time.Time // of the entries
	since     time.Time // when the first was dropped
	n         int
}

// Add takes an entry at a time of the process, and reports whether it did: an entry whose kind is over its rate is dropped. If the
// log is full, the oldest condition of a pool is, because most of them say little; without one, the oldest entry.
func (l *Log) Add(now time.Time, e messages.JournalEntry) bool {
	if !l.allows(now, e.Kind) {
		l.drop(now, &e)
		return false
	}
	if len(l.entries) >= LogMax {
		i := slices.IndexFunc(l.entries, func(k messages.JournalEntry) bool { return k.Kind == messages.JournalPool })
		i = max(i, 0)
		l.drop(now, &l.entries[i])
		l.entries = slices.Delete(l.entries, i, i+1)
	}
	l.append(e)
	return true
}

func (l *Log) append(e messages.JournalEntry) {
	l.number++
	e.Number = l.number
	l.entries = append(l.entries, e)
}

// allows takes one entry from the room of its kind.
func (l *Log) allows(now time.Time, kind messages.JournalKind) bool {
	bound, bounded := rates[kind]
	if !bounded {
		return true
	}
	r, seen := l.rooms[kind]
	if !seen {
		r = room{left: bound.burst, at: now}
	}
	r.left = min(bound.burst, r.left+float64(now.Sub(r.at))/float64(bound.each))
	r.at = now
	allowed := r.left >= 1
	if allowed {
		r.left--
	}
	if l.rooms == nil {
		l.rooms = map[messages.JournalKind]room{}
	}
	l.rooms[kind] = r
	return allowed
}

// drop counts an entry that is not kept.
func (l *Log) drop(now time.Time, e *messages.JournalEntry) {
	if e.Kind == messages.JournalGap {
		return
	}
	i := slices.IndexFunc(l.gaps, func(g gap) bool { return g.kind == e.Kind })
	if i < 0 {
		l.gaps = append(l.gaps, gap{kind: e.Kind, from: e.At, til: e.At, since: now})
		i = len(l.gaps) - 1
	}
	g := &l.gaps[i]
	g.n++
	if e.At.Before(g.from) {
		g.from = e.At
	}
	if e.At.After(g.til) {
		g.til = e.At
	}
}

// Batch returns the next entries to store, at most limit. Last: no more will be added, so the gaps are told now. The entries stay
// until Stored.
func (l *Log) Batch(now time.Time, limit int, last bool) []messages.JournalEntry {
	open := l.gaps[:0]
	for _, g := range l.gaps {
		if len(l.entries) >= LogMax || !last && now.Sub(g.since) < gapEvery {
			open = append(open, g)
			continue
		}
		l.append(g.entry())
	}
	l.gaps = open
	return slices.Clone(l.entries[:min(len(l.entries), limit)])
}

func (g *gap) entry() messages.JournalEntry {
	e := messages.JournalEntry{At: g.from, Kind: messages.JournalGap, Subject: string(g.kind), What: Dropped}
	if detail, err := json.Marshal(GapDetail{Until: g.til, Entries: g.n}); err == nil {
		e.Detail = detail
	}
	return e
}

// Stored removes the entries up to a number.
func (l *Log) Stored(number int64) {
	l.entries = slices.DeleteFunc(l.entries, func(e messages.JournalEntry) bool { return e.Number <= number })
}

// Refuse removes the entries up to a number that the store cannot keep, and counts them as dropped.
func (l *Log) Refuse(now time.Time, number int64) {
	for i := range l.entries {
		if e := &l.entries[i]; e.Number <= number {
			l.drop(now, e)
		}
	}
	l.Stored(number)
}

// Len counts the entries that are not stored yet.
func (l *Log) Len() int { return len(l.entries) }
