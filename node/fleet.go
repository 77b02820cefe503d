package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/restart"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// ownWorkers are the workers of this node, by pool and slot; pool "" means all.
func (b backend) ownWorkers(ctx context.Context, pool string) []api.WorkerView {
	views := []api.WorkerView{}
	for name, d := range b.pools.DescribeAll(ctx) {
		if pool != "" && pool != name {
			continue
		}
		for i := range d.Workers {
			views = append(views, b.workerView(&d, &d.Workers[i]))
		}
	}
	slices.SortFunc(views, byPlace)
	return views
}

// byPlace orders the workers of one node by pool and slot.
func byPlace(x, y api.WorkerView) int {
	_, _, i, _ := x.ID.Split()
	_, _, j, _ := y.ID.Split()
	return cmp.Or(strings.Compare(x.Pool, y.Pool), cmp.Compare(i, j))
}

func (b backend) workerView(d *supervisor.Description, w *supervisor.WorkerState) api.WorkerView {
	shown := w.Report
	shown.Status = w.Grade
	report, err := json.Marshal(shown)
	if err != nil {
		report = nil
	}
	return api.WorkerView{
		ID: w.ID, Pool: d.Name, Node: b.cfg.Name, Runtime: d.Runtime, Generation: w.Generation, State: w.State.String(),
		Health: w.Health.String(), Grade: w.Grade.String(), GradeCauses: w.Causes.Names(), Cordoned: w.Cordoned, Pid: w.Pid, Since: w.Since,
		Execution: w.Execution, Heartbeat: w.Beat, Restarts: w.Restarts, LastError: clip(w.LastFailure, failureMax), Report: report,
		SeenAt: time.Now(),
	}
}

// failureMax bounds the last failure of a worker as it is shown, in bytes.
const failureMax = 4 << 10

func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

// ownWorker is a worker of this node with its history.
func (b backend) ownWorker(ctx context.Context, pool string, slot messages.Slot) (api.WorkerDetail, error) {
	id := messages.NewWorkerID(b.member.label, pool, slot)
	pid := b.pools.pid(pool)
	if pid == nil {
		return api.WorkerDetail{}, noWorker(id)
	}
	limited, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	d, err := actors.Ask[supervisor.Describe, supervisor.Description](limited, b.system, pid, supervisor.Describe{})
	if err != nil {
		return api.WorkerDetail{}, err
	}
	for i := range d.Workers {
		if d.Workers[i].Slot == slot {
			detail := api.WorkerDetail{WorkerView: b.workerView(&d, &d.Workers[i])}
			detail.History, err = b.history(limited, pool, &d.Workers[i])
			return detail, err
		}
	}
	return api.WorkerDetail{}, noWorker(id)
}

// historyMax bounds the transitions that are shown of one worker.
const historyMax = 64

// history is the live generation's own, check-outs included, and behind it what the store has of earlier ones; or what
// the store has of all, where the live one does not answer. While the store is away it is the live one's alone.
func (b backend) history(ctx context.Context, pool string, w *supervisor.WorkerState) ([]store.WorkerEvent, error) {
	key := messages.WorkerKey{Incarnation: b.incarnation, Pool: pool, Slot: w.Slot}
	var stored []store.WorkerEvent
	if b.gate() == nil {
		var err error
		if stored, err = b.store.WorkerEvents(ctx, key, historyMax); err != nil {
			return nil, err
		}
	}
	if w.PID == nil {
		return stored, nil
	}
	quick, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	seen, err := actors.Ask[actors.Inspect, actors.Inspection](quick, b.system, w.PID, actors.Inspect{})
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

// actorHistory is the lifecycle of a worker actor, for the debug endpoint; other actors have none.
func (n *Node) actorHistory(ctx context.Context, info actors.Info) (any, error) {
	if info.Kind != "worker" {
		return nil, nil
	}
	seen, err := actors.Ask[actors.Inspect, actors.Inspection](ctx, n.system, n.system.PID(info.ID), actors.Inspect{})
	if err != nil {
		return nil, err
	}
	return api.ViewHistory(events(messages.WorkerKey{}, &seen)), nil
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

// poolView is this node's share of a pool.
func poolView(d *supervisor.Description) api.PoolView {
	v := api.PoolView{
		Name: d.Name, Runtime: d.Runtime, Workers: len(d.Workers), Broken: d.Broken != "", Cordoned: d.Cordoned,
		Window: d.Router.Window, Reason: d.Broken, Routing: api.Routing{
			Mode: d.Lead.Mode.String(), Router: d.Lead.Name, Epoch: d.Lead.Epoch, Since: d.Lead.Since,
			Followers: d.Lead.Followers, Why: d.Lead.Why,
		},
	}
	if d.OldCode > 0 && v.Reason == "" {
		v.OldCode, v.Reason = true, fmt.Sprintf("%d workers run the code from before a reload, for the new does not start: %s", d.OldCode, d.Failed)
	}
	if d.State == restart.BackingOff && v.Reason == "" {
		v.Reason = "a worker waits before it is started again: " + d.Failed
	}
	if d.EchoLate && v.Reason == "" {
		v.Reason = "it does not deliver: its dispatch echo is late"
	}
	for i := range d.Workers {
		v.Restarts += d.Workers[i].Restarts
		stale := d.Workers[i].Causes&health.HeartbeatStale != 0
		if stale {
			v.Stale++
		}
		switch d.Workers[i].State {
		case lifecycle.Ready:
			if !stale { // nothing is placed on it
				v.Ready++
			}
		case lifecycle.Busy:
			v.Busy++
		case lifecycle.Degraded:
			v.Degraded++
		default:
			v.Starting++
		}
	}
	return v
}

// addDepths adds what waits, is placed and runs in the whole cluster.
func addDepths(v *api.PoolView, depths []store.Depth) {
	for _, depth := range depths {
		switch {
		case depth.Pool != v.Name:
		case depth.Status == messages.Requested || depth.Status == messages.Scheduling:
			v.Waiting += depth.Count
			v.More = v.More || depth.More
		case depth.Status == messages.Scheduled:
			v.Placed += depth.Count
		case depth.Status.Started():
			v.Running += depth.Count
		}
	}
}

// askStore asks a store that is thought to be up whether it answers.
func (b backend) askStore(ctx context.Context) error {
	if !b.servers.store.read().up {
		return nil // it is known to be away
	}
	limited, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	_, err := b.store.Now(limited)
	if err != nil {
		b.servers.suspect()
	}
	return err
}

// Ready implements api.Backend. It may be asked of a node that has just begun to start.
func (b backend) Ready(ctx context.Context) api.Readiness {
	if !b.founded.Load() {
		return api.Readiness{WaitsFor: []string{"node"}}
	}
	r := api.Readiness{Draining: b.draining.Load()}
	r.WaitsFor, r.Notes = b.membershipNotes()
	r.WaitsFor = append(r.WaitsFor, b.servers.waits()...)
	r.Notes = append(r.Notes, b.servers.oddNotes()...)
	b.lateWrites(&r)
	r.Notes = append(r.Notes, b.servers.losses.notes(b.cfg.Broker.Shared().Exchanges)...)
	r.Notes = append(r.Notes, b.notices.notes()...)
	r.Notes = append(r.Notes, b.short.notes(time.Now())...)
	if !b.started.Load() {
		if len(r.WaitsFor) == 0 {
			r.WaitsFor = append(r.WaitsFor, "node")
		}
		return r
	}
	if refused := b.lastRefused.Load(); refused != nil {
		r.Notes = append(r.Notes, refused.note())
	}
	if err := b.askStore(ctx); err != nil {
		r.WaitsFor = append(r.WaitsFor, "store: "+err.Error())
	}
	described := b.pools.DescribeAll(ctx)
	for name := range b.pools.all() {
		d, answered := described[name]
		switch {
		case !answered:
			r.WaitsFor = append(r.WaitsFor, "pool "+name+" does not answer")
		case !d.Started:
			r.WaitsFor = append(r.WaitsFor, "pool "+name+" is starting")
		case d.Broken != "":
			r.BrokenPools = append(r.BrokenPools, name)
			r.Notes = append(r.Notes, "pool "+name+" is broken: "+clip(d.Broken, failureMax))
		default:
			b.lateBeats(&r, &d)
		}
	}
	slices.Sort(r.WaitsFor)
	slices.Sort(r.BrokenPools)
	r.Ready = len(r.WaitsFor) == 0 && !r.Draining
	return r
}
