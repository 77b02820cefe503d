package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// local shows this node's own workers and pools, and carries out commands to its own workers.
type local struct{ cfg *Config }

// ownWorkers are the workers of this node, by pool and slot; pool "" means all.
func (l *local) ownWorkers(ctx context.Context, pool string) []view.Worker {
	views := []view.Worker{}
	all := l.cfg.Pools.DescribeAll(ctx)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if pool != "" && pool != name {
			continue
		}
		d := all[name]
		for i := range d.Workers { // by slot
			views = append(views, l.workerView(&d, &d.Workers[i]))
		}
	}
	return views
}

// byPlace orders the workers of one node by pool and slot.
func byPlace(x, y view.Worker) int {
	_, _, i, _ := x.ID.Split()
	_, _, j, _ := y.ID.Split()
	return cmp.Or(strings.Compare(x.Pool, y.Pool), cmp.Compare(i, j))
}

func (l *local) workerView(d *supervisor.Description, w *supervisor.WorkerState) view.Worker {
	shown := w.Report
	shown.Status = w.Grade
	report, err := json.Marshal(shown)
	if err != nil {
		report = nil
	}
	return view.Worker{
		ID: w.ID, Pool: d.Name, Node: l.cfg.Name, Runtime: d.Runtime, Generation: w.Generation, State: w.State.String(),
		Health: w.Health.String(), Grade: w.Grade.String(), GradeCauses: w.Causes.Names(), Cordoned: w.Cordoned, Pid: w.Pid, Since: w.Since,
		Execution: w.Execution, Heartbeat: w.Beat, Restarts: w.Restarts, LastError: messages.ClipText(w.LastFailure, FailureMax), Report: report,
		SeenAt: time.Now(),
	}
}

// FailureMax bounds the last failure of a worker as it is shown, in bytes.
const FailureMax = 4 << 10

// ownWorker is a worker of this node with its history.
func (l *local) ownWorker(ctx context.Context, pool string, slot messages.Slot) (view.WorkerDetail, error) {
	id := messages.NewWorkerID(l.cfg.Self.Label(), pool, slot)
	if !l.cfg.Pools.Has(pool) {
		return view.WorkerDetail{}, noWorker(id)
	}
	limited, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	d, err := l.cfg.Pools.Describe(limited, pool)
	if err != nil {
		return view.WorkerDetail{}, err
	}
	for i := range d.Workers {
		if d.Workers[i].Slot == slot {
			detail := view.WorkerDetail{Worker: l.workerView(&d, &d.Workers[i]), Inputs: l.inputs(&d.Workers[i])}
			detail.History, err = l.history(limited, pool, &d.Workers[i])
			return detail, err
		}
	}
	return view.WorkerDetail{}, noWorker(id)
}

// inputs are what grades a worker, with the borders. One that has not become ready has no heartbeat yet, and counts as starting.
func (l *local) inputs(w *supervisor.WorkerState) []view.GradeInput {
	sample := w.Report.Sample()
	sample.StateDegraded = w.State == lifecycle.Degraded
	sample.HeartbeatSeen, sample.HeartbeatAge = true, time.Since(w.Beat)
	var list []view.GradeInput
	for _, i := range health.Inputs(l.cfg.Grades.Thresholds, sample) {
		if i.Cause == health.HeartbeatStale && w.Beat.IsZero() {
			continue
		}
		v := view.GradeInput{Name: i.Cause.String(), Degraded: i.Degraded, Unhealthy: i.Unhealthy, Grade: i.Grade.String(), Ignored: i.Ignored}
		if !i.None {
			v.Value = &i.Value
		}
		list = append(list, v)
	}
	return list
}

// historyMax bounds the transitions that are shown of one worker.
const historyMax = 64

// history is the live generation's own, check-outs included, and behind it what the store has of earlier ones; or what
// the store has of all, where the live one does not answer. While the store is away it is the live one's alone.
func (l *local) history(ctx context.Context, pool string, w *supervisor.WorkerState) ([]store.WorkerEvent, error) {
	key := messages.WorkerKey{Incarnation: l.cfg.Incarnation, Pool: pool, Slot: w.Slot}
	var stored []store.WorkerEvent
	if l.cfg.Self.Gate() == nil {
		var err error
		if stored, err = l.cfg.Store.WorkerEvents(ctx, key, historyMax); err != nil {
			return nil, err
		}
	}
	if w.PID == nil {
		return stored, nil
	}
	quick, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	seen, err := l.cfg.Pools.Inspect(quick, w.PID.GetId())
	if err != nil {
		return stored, nil
	}
	list := events(key, &seen)
	for i := range stored {
		if stored[i].Generation < seen.Generation && len(list) < historyMax {
			list = append(list, stored[i])
		}
	}
	return list, nil
}

func events(key messages.WorkerKey, seen *actors.Inspection) []store.WorkerEvent {
	list := make([]store.WorkerEvent, 0, len(seen.History))
	for i := range seen.History {
		entry := &seen.History[i]
		e := store.WorkerEvent{
			Key: key, Generation: seen.Generation, At: time.UnixMilli(entry.AtMillis), From: entry.From.String(),
			To: entry.To.String(), Reason: entry.Reason.String(), Lasted: entry.In,
		}
		if entry.Meta != nil {
			if raw, err := json.Marshal(entry.Meta); err == nil {
				e.Metadata = raw
			}
		}
		list = append(list, e)
	}
	return list
}

// ownPools are this node's pools without what the store knows of them, by name.
func (l *local) ownPools(ctx context.Context) []view.Pool {
	views := []view.Pool{}
	for _, d := range l.cfg.Pools.DescribeAll(ctx) {
		v := poolView(&d)
		l.mark(&v)
		views = append(views, v)
	}
	slices.SortFunc(views, func(x, y view.Pool) int { return strings.Compare(x.Name, y.Name) })
	return views
}

// mark adds to a pool what it does not know itself: what its last reload came to, and that a server is away.
func (l *local) mark(v *view.Pool) {
	l.cfg.MarkPool(v)
	if halted := l.cfg.Servers.Halted(v.Name); halted != roster.Ready {
		v.Halted = halted.String()
	}
}

// probeTime bounds a probe of another node's worker, the answer's way included.
func (l *local) probeTime() time.Duration { return l.cfg.ProbeTimeout + 2*time.Second + steerTime }

// probeWorker probes a worker of this node.
func (l *local) probeWorker(ctx context.Context, pool string, slot messages.Slot, by string) (view.WorkerDetail, error) {
	if d, err := l.ownWorker(ctx, pool, slot); err != nil { // the pool may have no such slot
		return d, err
	}
	limited, cancel := context.WithTimeout(ctx, l.cfg.ProbeTimeout+2*time.Second)
	defer cancel()
	l.cfg.Logger.Info("worker is probed for an operator", "worker", messages.NewWorkerID(l.cfg.Self.Label(), pool, slot), "by", by)
	if err := l.cfg.Pools.Probe(limited, pool, slot); err != nil {
		return view.WorkerDetail{}, err
	}
	return l.ownWorker(ctx, pool, slot)
}

// killWorker ends one generation of a worker of this node. One that is gone already is as good as killed.
func (l *local) killWorker(ctx context.Context, pool string, slot messages.Slot, generation messages.Generation, by string) error {
	d, err := l.ownWorker(ctx, pool, slot)
	if err != nil || d.Generation != generation {
		return err
	}
	l.cfg.Logger.Warn("worker is killed by an operator", "worker", d.ID, "generation", generation, "by", by)
	l.cfg.Pools.Tell(pool, &supervisor.KillWorker{Slot: slot, Generation: generation, By: by})
	return nil
}

// cordonWorker takes a worker of this node out of placement or back in.
func (l *local) cordonWorker(ctx context.Context, pool string, slot messages.Slot, cordoned bool, by string) error {
	key := messages.WorkerKey{Incarnation: l.cfg.Incarnation, Pool: pool, Slot: slot}
	id := messages.NewWorkerID(l.cfg.Self.Label(), pool, slot)
	if !l.cfg.Pools.Has(pool) {
		return noWorker(id)
	}
	if err := l.cfg.Store.CordonWorker(ctx, key, cordoned); err != nil {
		return found("worker", id, err)
	}
	l.cfg.Logger.Info("worker is cordoned or uncordoned by an operator", "worker", id, "cordoned", cordoned, "by", by)
	l.cfg.Pools.Tell(pool, &supervisor.Cordon{Slot: slot, Cordoned: cordoned})
	return nil
}
