package rollup

import "time"

// Compared is a range of whole steps, and the range of the same length before it.
type Compared struct {
	Before time.Time // when the range before begins; it ends at From
	From   time.Time
	To     time.Time
	Until  time.Time // up to when the counts of the range are known
}

// Compare makes the ranges of a time. Its ends are taken to whole minutes, which is what nodes count by, or, where the range before begins
// before the minutes that are kept, to whole hours. Known is up to when counts are known: the range ends with the step that has it.
func Compare(from, to, known, kept time.Time) Compared {
	c := comparedBy(from, to, known, time.Minute)
	if c.Before.Before(kept) {
		return comparedBy(from, to, known, time.Hour)
	}
	return c
}

func comparedBy(from, to, known time.Time, step time.Duration) Compared {
	from, to = from.Truncate(step), up(to, step)
	if last := up(known, step); to.After(last) {
		to = last
	}
	if !from.Before(to) {
		to = from.Add(step)
	}
	c := Compared{Before: from.Add(from.Sub(to)), From: from, To: to, Until: known}
	if c.Until.After(to) {
		c.Until = to
	}
	return c
}

// up is the end of the step that a time is in.
func up(at time.Time, step time.Duration) time.Time {
	if down := at.Truncate(step); down.Before(at) {
		return down.Add(step)
	}
	return at
}

// In says in which of the ranges a time is: 0 in the range, 1 in the one before; false: in neither.
func (c *Compared) In(t time.Time) (int, bool) {
	switch {
	case t.Before(c.Before) || !t.Before(c.To):
		return 0, false
	case t.Before(c.From):
		return 1, true
	}
	return 0, true
}
