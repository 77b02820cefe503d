package node

import (
	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/api/hub"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// noteRecorded tells those who follow the live stream what a transaction of the recorder has changed. Without them it costs one
// atomic load.
func (b *base) noteRecorded(all []actors.Recorded) {
	if !b.hub.Watching() {
		return
	}
	var changes []hub.Change
	for i := range all {
		for j := range all[i].Results {
			done, change := &all[i].Results[j], all[i].Items[j].Change
			if done.Verdict != store.Applied {
				continue
			}
			noted := hub.Change{ID: change.Target(), Status: done.Status}
			if e := done.Execution; e != nil {
				noted = changeOf(e)
				noted.Status = done.Status
			}
			changes = append(changes, noted)
			if next := retryOf(change); next != nil {
				changes = append(changes, newOf(next))
			}
		}
	}
	b.hub.Note(changes)
}

// noteSubmitted tells those who follow the live stream what was submitted on this node.
func (b *base) noteSubmitted(stored []store.Submitted) {
	if !b.hub.Watching() {
		return
	}
	changes := make([]hub.Change, len(stored))
	for i := range stored {
		changes[i] = newOf(&stored[i].Execution)
	}
	b.hub.Note(changes)
}

func newOf(e *messages.Execution) hub.Change {
	c := changeOf(e)
	c.New, c.Labels = true, e.Labels
	return c
}

func changeOf(e *messages.Execution) hub.Change {
	return hub.Change{ID: e.ID, Status: e.Status, Action: e.Action, Pool: e.Pool, Session: e.Session, Worker: string(e.WorkerID)}
}
