package rollup

import (
	"cmp"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Bounds of what a node counts.
const (
	KeysMax    = 500    // of one minute; further ones count as Other
	EntriesMax = 10_000 // of all minutes in memory; beyond it the oldest minutes are dropped
	keptFor    = 5 * time.Minute
)

// Other is the action of what has no key of its own.
const Other = "(other)"

// Submitted is the status of rows that count submissions. No execution has it.
const Submitted = messages.Status(0)

// Key is what is counted by itself in a minute.
type Key struct {
	Pool, Action, Version string
	Status                messages.Status // Submitted, or how it ended
	Code                  messages.Code   // of its error
}

// Count is what is counted of a key.
type Count struct {
	N         int64
	Wait, Run Histogram
	changed   bool
}

// Row is a key's count of a minute, or of an hour.
type Row struct {
	Minute time.Time // when it begins
	Key
	N         int64
	Wait, Run Histogram
}

// Minutes are the counts of a node that may still change or that the store does not have. The zero value can be used.
type Minutes struct {
	of      map[int64]map[Key]*Count // by Unix time of the minute
	entries int
	// over is the newest minute that was forgotten. The store may have rows of it, which a new count would replace, so what is older counts
	// in the minute after it.
	over    int64
	Dropped int // rows that were dropped before the store had them
}

// Ended counts an execution that ended.
func (m *Minutes) Ended(e *End) {
	c := m.count(e.At, e.Key)
	c.N++
	if e.Wait >= 0 {
		c.Wait.Add(e.Wait)
	}
	if e.Run >= 0 {
		c.Run.Add(e.Run)
	}
}

// Submitted counts submissions.
func (m *Minutes) Submitted(at time.Time, k Key, n int64) {
	k.Status, k.Code = Submitted, ""
	m.count(at, k).N += n
}

func (m *Minutes) count(at time.Time, k Key) *Count {
	minute := at.Unix() - at.Unix()%60
	if minute <= m.over {
		minute = m.over + 60
	}
	keys := m.of[minute]
	if keys == nil {
		if m.of == nil {
			m.of = map[int64]map[Key]*Count{}
		}
		keys = map[Key]*Count{}
		m.of[minute] = keys
	}
	c := keys[k]
	if c == nil && len(keys) >= KeysMax {
		k = Key{Action: Other, Status: k.Status}
		c = keys[k]
	}
	if c == nil {
		c = &Count{}
		keys[k] = c
		if m.entries++; m.entries > EntriesMax {
			m.drop(minute)
		}
	}
	c.changed = true
	return c
}

// drop removes the oldest minute, but for the given one.
func (m *Minutes) drop(but int64) {
	oldest := but
	for minute := range m.of {
		if minute < oldest {
			oldest = minute
		}
	}
	if oldest == but {
		return
	}
	for _, c := range m.of[oldest] {
		if c.changed {
			m.Dropped++
		}
	}
	m.forget(oldest)
}

func (m *Minutes) forget(minute int64) {
	m.over = max(m.over, minute)
	m.entries -= len(m.of[minute])
	delete(m.of, minute)
}

// Take returns the rows that have changed since they were taken, and forgets the minutes that are over and taken. Where the store does not
// take them, Return gives them back.
func (m *Minutes) Take(now time.Time) (rows []Row) {
	for minute, keys := range m.of {
		before := len(rows)
		for k, c := range keys {
			if c.changed {
				c.changed = false
				rows = append(rows, Row{Minute: time.Unix(minute, 0).UTC(), Key: k, N: c.N, Wait: c.Wait, Run: c.Run})
			}
		}
		if len(rows) == before && now.Unix()-minute > int64((time.Minute+keptFor)/time.Second) {
			m.forget(minute)
		}
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Or(a.Minute.Compare(b.Minute), compareKeys(a.Key, b.Key)) })
	return rows
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Action, b.Action), cmp.Compare(a.Version, b.Version),
		cmp.Compare(a.Status, b.Status), cmp.Compare(a.Code, b.Code))
}

// Return says that the store does not have the rows.
func (m *Minutes) Return(rows []Row) {
	for i := range rows {
		if c := m.of[rows[i].Minute.Unix()][rows[i].Key]; c != nil {
			c.changed = true
		}
	}
}
