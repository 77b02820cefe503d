package operate

import (
	"fmt"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/restart"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// poolView is this node's share of a pool.
func poolView(d *supervisor.Description) view.Pool {
	v := view.Pool{
		Name: d.Name, Runtime: d.Runtime, Workers: len(d.Workers), Broken: d.Broken != "", Cordoned: d.Cordoned,
		Window: d.Router.Window, Reason: d.Broken, Dispatch: dispatchOf(d), Routing: view.Routing{
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
	unattached, _, why := d.Unattached()
	if v.Unattached = unattached; unattached > 0 && v.Reason == "" {
		v.Reason = why
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
			if !stale && d.Workers[i].Unattached == 0 { // nothing is placed on it
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

// dispatchOf says how executions go to the workers of a pool on its node.
func dispatchOf(d *supervisor.Description) string {
	if d.Direct {
		return "direct"
	}
	return "broker"
}

// addDepths adds what waits, is placed and runs in the whole cluster.
func addDepths(v *view.Pool, depths []store.Depth) {
	for _, depth := range depths {
		switch {
		case depth.Pool != v.Name:
		case depth.Status == messages.Requested || depth.Status == messages.Scheduling:
			v.Waiting += depth.Count
			v.NotDue += depth.NotDue
			v.More = v.More || depth.More
			v.Oldest = store.OldestOf(v.Oldest, depth.Oldest)
		case depth.Status == messages.Scheduled:
			v.Placed += depth.Count
		case depth.Status.Started():
			v.Running += depth.Count
		}
	}
}
