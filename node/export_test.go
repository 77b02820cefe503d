package node

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/store"
)

// Metrics shows what /metrics does.
func (n *Node) Metrics() http.Handler { return n.metrics.handler() }

// Crash makes an actor of the tree panic.
func (n *Node) Crash(id string) {
	n.system.Send(n.system.PID(id), &actors.Crash{Reason: "a test said so"})
}

// Broker is the node's broker.
func (n *Node) Broker() broker.Broker { return n.broker }

// Store is the node's store.
func (n *Node) Store() store.Store { return n.store }

// AskPeer asks another node once.
func (n *Node) AskPeer(ctx context.Context, to messages.Incarnation, about messages.Placement, body wire.Body) (wire.Body, error) {
	return n.peers.Ask(ctx, to, about, body)
}

// Wanted is how many executions other nodes want the outcome of.
func (n *Node) Wanted() int { return int(n.elsewhere.wanted.Load()) }

// Unhurried has callers who wait look at the store after an hour, and messages about outcomes between nodes wait for a minute: on a machine
// that is busy with other tests, both would else come in the way of what is told. It is called before anybody waits.
func (n *Node) Unhurried() {
	n.elsewhere.outcomes.FirstLook = time.Hour
	n.elsewhere.post = func(ctx context.Context, to messages.Incarnation, body wire.Body) (wire.Body, error) {
		return n.peers.AskLong(ctx, time.Minute, to, messages.Placement{}, body)
	}
}

// Record has the node's recorder make changes.
func (n *Node) Record(ctx context.Context, pool string, changes ...store.Change) ([]store.Result, error) {
	items := make([]actors.Item, len(changes))
	for i := range changes {
		items[i] = actors.Item{Change: changes[i]}
	}
	return n.tree.record(ctx, pool, items)
}

// LeaseHolds reports whether a run may start.
func (n *Node) LeaseHolds() bool { return n.member.lease.Holds() }

// DeclareShared makes a topology as a node does, and returns what /readyz says of its queues.
func DeclareShared(ctx context.Context, b broker.Broker, t broker.Topology) ([]string, error) {
	odd, err := declareTopology(ctx, b, t)
	w := &watcher{broker: server{logger: hclog.NewNullLogger()}}
	w.noteOdd(odd)
	return w.oddNotes(), err
}

// LookAtExchanges returns a look at the shared exchanges as a node takes it, which returns what /readyz then says.
func LookAtExchanges(t *testing.T, b broker.Broker, settings broker.Settings) func() []string {
	n := &base{cfg: Config{Broker: settings}, broker: &shared{adapter: b}}
	w := &watcher{node: n, broker: server{logger: hclog.NewNullLogger()}}
	return func() []string {
		w.lookAtExchanges(t.Context())
		return w.losses.notes(settings.Shared().Exchanges)
	}
}

// SharedFolder is sharedFolder.
var SharedFolder = sharedFolder
