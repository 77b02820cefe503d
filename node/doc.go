// Package node assembles one Troupe node: from a Config it opens the adapters, ends what an earlier boot left behind,
// gives back what that boot had on its workers, and starts the tree; and it stops all of that in reverse. It reads no
// flags, files of settings or environment, and handles no signals: that is the business of cmd.
//
// The tree that it starts, left to right:
//
//	troupe                    root: one for one, and where a fenced node learns that it has to go
//	├── membership            this incarnation's lease; who else lives; NodeUp, NodeDown, Fenced (supervisor.Member)
//	├── recorder              groups every execution change of the node into few transactions
//	├── bridges               delivery, dead_letter, and the others of bridges.go
//	├── pools
//	│   └── NAME              starts, probes and replaces the workers of one pool, and routes to them
//	│       └── SLOT.GEN      a worker
//	├── monitors              rounds over rows that are past a time of theirs: heartbeat, timeout, deadlines, claims, orphans,
//	│                         homeless, elsewhere, routers, cancels, cordons, retention
//	└── observer              knows every live actor, and says which are stuck
//
// Two actors that the design page lists are parts of the pools instead. A due time (run_at, a retry's) is part of the
// question that a pool's router asks the store, and the router knows when to ask next (roster.Sleep), so a schedule monitor
// would only repeat it. The dispatch echo measures one pool's way through store, router, broker and worker, so the pool
// sends it and hears the answer. The actor peers is there where the node has an end of the remoting: without one no
// other node can be asked (supervisor.MemberConfig.Peers is nil).
//
// What callers ask and operators command is answered by an operate.Operator, which reaches this node over the ports in self.go.
//
// Keeper runs a Node, and a new incarnation after it where it is fenced.
//
// Its tests take long: they start whole nodes with real servers and processes, and end, freeze and cut them off until leases run out.
package node
