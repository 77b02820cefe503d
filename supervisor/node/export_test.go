package node

import (
	"net/http"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/broker"
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
