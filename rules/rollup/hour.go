package rollup

import (
	"slices"
	"time"
)

// Bounds of the counts by the hour.
const (
	HourKeysMax = 5000 // of one hour; further ones count as Other
	othersMax   = 16   // of HourKeysMax, for the others of each status
	// FoldAfter is the age at which an hour is folded: its minutes are added up, which change no more by then, but for those that are late.
	FoldAfter = 2*time.Hour + 5*time.Minute
	// MinutesLeast is how long minutes are kept at least, so that hours can be made of them.
	MinutesLeast = 6 * time.Hour
)

// Hour adds the minutes of an hour, of all nodes.
type Hour struct {
	begins time.Time
	of     map[Key]*Row
}

// NewHour makes an hour without counts.
func NewHour(begins time.Time) *Hour { return &Hour{begins: begins, of: map[Key]*Row{}} }

// Add adds a minute of it.
func (h *Hour) Add(r *Row) {
	k := r.Key
	sum := h.of[k]
	if sum == nil && len(h.of) >= HourKeysMax-othersMax {
		k = Key{Action: Other, Status: k.Status}
		sum = h.of[k]
	}
	if sum == nil {
		sum = &Row{Minute: h.begins, Key: k}
		h.of[k] = sum
	}
	sum.N += r.N
	sum.Wait.Merge(&r.Wait)
	sum.Run.Merge(&r.Run)
}

// Rows are the counts of the hour by their keys, HourKeysMax at most.
func (h *Hour) Rows() []Row {
	rows := make([]Row, 0, len(h.of))
	for _, r := range h.of {
		rows = append(rows, *r)
	}
	slices.SortFunc(rows, func(a, b Row) int { return compareKeys(a.Key, b.Key) })
	return rows
}

// Fold says of an hour whether it has been folded, and whether all of its minutes were in that.
type Fold struct {
	Hour  time.Time
	Made  bool // it has been folded
	Whole bool // no minute of it was stored after that
}

// Kept says from when on counts are kept; zero: all are.
type Kept struct{ Minutes, Hours time.Time }

// From is when the counts of a step begin.
func (k *Kept) From(step time.Duration) time.Time {
	if step < time.Hour || k.Minutes.Before(k.Hours) {
		return k.Minutes
	}
	return k.Hours
}

// Span is a time whose counts are read by the minute, or by the hour.
type Span struct {
	From, To time.Time
	Hours    bool
}

// Spans divides a time, from a whole hour on, by where its counts are: in the hours that are folded and kept, else in the minutes. An hour
// whose minutes are deleted has what it was folded of. Of an hour that does not belong to the time whole, the minutes are taken.
func Spans(from, to time.Time, folds []Fold, kept Kept) []Span {
	folded := make(map[int64]bool, len(folds))
	for _, f := range folds {
		folded[f.Hour.Unix()] = !f.Hour.Before(kept.Hours) && (f.Whole || f.Made && f.Hour.Before(kept.Minutes))
	}
	var spans []Span
	for at := from; at.Before(to); {
		next := Span{From: at, To: at.Add(time.Hour), Hours: folded[at.Unix()]}
		if next.To.After(to) {
			next.To, next.Hours = to, false
		}
		if last := len(spans) - 1; last >= 0 && spans[last].Hours == next.Hours {
			spans[last].To = next.To
		} else {
			spans = append(spans, next)
		}
		at = next.To
	}
	return spans
}
