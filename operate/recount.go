package operate

import (
	"context"
	"math"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/rollup"
	"github.com/troupe-run/troupe/store"
)

// Bounds of counting again what a killed node had counted last.
const (
	recountWalk  = 20_000 // executions that are looked at, those that were requested last
	recountTime  = 5 * time.Second
	recountSpan  = 24 * time.Hour // how long before its end an execution was requested at most
	recountAfter = 24 * time.Hour // for how long after the node's end it is done
	recountNodes = 5              // killed nodes at once, the newest
)

// Killed are the nodes that may have been killed lately, the newest first. All are all incarnations.
func Killed(all []store.Node, now time.Time) (list []rollup.Killed) {
	unknown := false // how it ended
	for i := range all {
		n := &all[i]
		if n.State != store.NodeDead || n.Ended == store.EndStopped || now.Sub(n.BeatAt) > recountAfter || len(list) == recountNodes {
			continue
		}
		k := rollup.Killed{Incarnation: n.Incarnation, Beat: n.BeatAt, Until: n.LeaseUntil}
		if n.Ended == "" { // the embedded store says of none how it ended: all but the newest were dealt with by earlier boots
			if unknown {
				continue
			}
			unknown, k.Until = true, untilNext(n, all)
		}
		list = append(list, k)
	}
	return list
}

// untilNext is up to when a node of the embedded store may have ended something, which no lease bounds: until the next one started, which
// needs its lock.
func untilNext(n *store.Node, all []store.Node) time.Time {
	until := time.Time{}
	for i := range all {
		if next := all[i].StartedAt; next.After(n.BeatAt) && (until.IsZero() || next.Before(until)) {
			until = next
		}
	}
	if until.IsZero() {
		return n.LeaseUntil
	}
	return until
}

// Recounting is what Recount asks of the store. A store.Store is one.
type Recounting interface {
	lister
	ReadRollups(ctx context.Context, q store.RollupQuery) (store.RollupPage, error)
	SaveRollups(ctx context.Context, rows []store.Rollup) error
}

// Recount counts from the executions what workers of a killed node ended last, and stores it as the node's counts, which it returns the number
// of. Several nodes may do so, and each may repeat it: the rows are the same. Whole: it has looked at all executions that may have ended then.
func Recount(ctx context.Context, s Recounting, k *rollup.Killed) (rows int, whole bool, err error) {
	var again rollup.Minutes
	f := store.Filter{Statuses: ended, From: k.Beat.Add(-recountSpan), To: k.Until, Limit: listPage}
	reached, err := walk(ctx, s, f, recountWalk, recountTime, func(e *messages.Execution) {
		if k.Counted(e) {
			end := rollup.EndOf(e, e.Status, e.FinishedAt)
			again.Ended(&end)
		}
	})
	if err != nil {
		return 0, false, err
	}
	var stored []rollup.Row
	from, to := k.Minutes()
	if _, _, err = readPages(ctx, s.ReadRollups, store.RollupQuery{From: from, To: to}, math.MaxInt, func(r *store.Rollup) {
		if r.Incarnation == k.Incarnation {
			stored = append(stored, rowOf(r))
		}
	}); err != nil {
		return 0, false, err
	}
	counted := rollup.Recounted(stored, again.Take(k.Until))
	for at := 0; at < len(counted); at += store.RollupBatch {
		batch := counted[at:min(len(counted), at+store.RollupBatch)]
		if err := s.SaveRollups(ctx, StoredRows(k.Incarnation, batch)); err != nil {
			return 0, false, err
		}
	}
	return len(counted), reached.More == store.MoreEnd, nil
}

// ended are the statuses of what has ended.
var ended = []messages.Status{messages.Completed, messages.Failed, messages.TimedOut, messages.Cancelled, messages.Abandoned}
