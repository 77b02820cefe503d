package rollup

import (
	"time"

	"github.com/troupe-run/troupe/messages"
)

// killedBefore is how long before its last renewal a killed node has written its counts, at the latest.
const killedBefore = 30 * time.Second

// Killed is a node that ended without writing what it had counted last.
type Killed struct {
	Incarnation messages.Incarnation
	Beat        time.Time // its last renewal
	Until       time.Time // nothing that it ended is later
}

// Minutes are the minutes that may lack some of its counts.
func (k *Killed) Minutes() (from, to time.Time) {
	return k.Beat.Add(-killedBefore).Truncate(time.Minute), k.Until.Add(time.Minute).Truncate(time.Minute)
}

// Counted reports whether the node counted the end of an execution in these minutes: one of its workers had claimed it, and it ended before the
// node did. Who ends what no worker has claimed counts it, and that can be any node. What the worker did not report itself, and ended after the
// node's last renewal, may be what others ended when they had declared the node dead, so it counts for them.
func (k *Killed) Counted(e *messages.Execution) bool {
	from, _ := k.Minutes()
	return e.Status.Terminal() && e.Worker.Incarnation == k.Incarnation && e.Generation != 0 && !e.FinishedAt.Before(from) &&
		!e.FinishedAt.After(k.Until) && (reported(e) || e.FinishedAt.Before(k.Beat))
}

// reported reports whether the outcome is one that the node itself has stored for its worker, and not one that any node can give it.
func reported(e *messages.Execution) bool {
	return e.Status != messages.Abandoned && e.Error.ByWorker()
}

// Recounted are the rows to store where a node's counts have been made again: those that have more than the stored ones. A minute in which the
// node had more keys than it counted by themselves stays as it is.
func Recounted(stored, again []Row) (rows []Row) {
	type minuteKey struct {
		at int64
		Key
	}
	had, full := map[minuteKey]int64{}, map[int64]bool{}
	for i := range stored {
		r := &stored[i]
		had[minuteKey{r.Minute.Unix(), r.Key}] = r.N
		full[r.Minute.Unix()] = full[r.Minute.Unix()] || r.Action == Other
	}
	for i := range again {
		if r := &again[i]; !full[r.Minute.Unix()] && r.N > had[minuteKey{r.Minute.Unix(), r.Key}] {
			rows = append(rows, *r)
		}
	}
	return rows
}
