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
//	│                         homeless, elsewhere, routers, cancels, cordons, journal, keyframes, operations, retention
//	└── observer              knows every live actor, and says which are stuck
//
// Two actors that the design page lists are parts of the pools instead. A due time (run_at, a retry's) is part of the
// question that a pool's router asks the store, and the router knows when to ask next (roster.Sleep), so a schedule monitor
// would only repeat it. The dispatch echo measures one pool's way through store, router, broker and worker, so the pool
// sends it and hears the answer. The actor peers is there where the node has an end of the remoting: without one no
// other node can be asked (supervisor.MemberConfig.Peers is nil).
//
// Node makes its parts in assemble, brings them up in bringUp, and ends them in stopAll. Each part is a type in a file of its own, and owns
// what it changes:
//
//	base           what all parts share: settings, identity, store, broker, actors, how far the node's life has got
//	dataFolder     the folder of the node's files, its lock, and what an earlier boot left there
//	adapters       opens and closes the store and the broker (open.go)
//	watcher        whether the two are there; waits for them (watch.go)
//	member         the node's life among others: its row, its lease, its guardian, the fence
//	network        its end of the remoting (peers.go); routing: who routes for its pools (routers.go)
//	catalog        the packs that it serves; poolConfigs: what a pool of them becomes here; poolStarter: starts and ends pools
//	reloader       reads packs, tokens and certificates again
//	submissions    makes requests executions (submit.go); intake: takes those of other programs
//	bridges        the ways in and out beside the HTTP API; notices: tells of outcomes
//	monitors       the regular rounds (sweeps.go); beats: the workers' heartbeats
//	keyframes      what the node is every few minutes, for its past (keyframes.go)
//	operations     operations on many executions: previews (operations.go), and the work on them (operations_work.go)
//	recording      what the node records in the journal, until the store has it (journal.go)
//	tree           the supervision tree, and the recorder in it
//	httpServer     the ports of the API; backend: what the API asks of the node; readiness: whether it may be sent work
//	forest         the view of the actors of all nodes
//
// What callers ask and operators command is answered by an operate.Operator, which reaches this node over the ports in self.go.
//
// Keeper runs a Node, and a new incarnation after it where it is fenced.
//
// Its tests take long: they start whole nodes with real servers and processes, and end, freeze and cut them off until leases run out.
package node
