package roster

import "github.com/troupe-run/troupe/messages"

// landedMax bounds each of the two parts of what is remembered as landed: at 27,000 executions a second, a third of a
// second. One that arrives later is placed in vain, and the store refuses it.
const landedMax = 10_000

// landed remembers the executions whose placements ended last, the latest landedMax of them and up to as many before. The word
// that an execution has been stored may come after all that became of it, for the store told of it too.
type landed struct {
	latest, before map[messages.ExecutionID]struct{}
}

func (l *landed) note(id messages.ExecutionID) {
	if len(l.latest) >= landedMax {
		l.latest, l.before = l.before, l.latest
		clear(l.latest)
	}
	if l.latest == nil {
		l.latest = map[messages.ExecutionID]struct{}{}
	}
	l.latest[id] = struct{}{}
}

func (l *landed) has(id messages.ExecutionID) bool {
	_, latest := l.latest[id]
	_, before := l.before[id]
	return latest || before
}
