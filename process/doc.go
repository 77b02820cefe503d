// Package process is the port between a worker and the operating-system process that does its work: it starts programs,
// exchanges frames with them, captures their output, measures what they use, ends them, and reports how they ended. It
// never decides when a program is stopped or replaced. The worker actor decides that, with a Ladder.
//
// Every program is the child of a guardian: this binary, executed again by Guardian. When the node is killed, the
// guardian lives on for at most a second, in which it ends all of the node's programs. It is the subreaper of orphaned
// descendants. It is the only process that signals or reaps programs, so no signal can hit a pid that another process
// has now.
//
// Where a cgroup v2 is writable, every program also has a group of its own, from which its descendants cannot escape.
// Where the memory and pids controllers are delegated, the kernel enforces the limits (see meansFor).
//
//	node ── watcher ── guardian ── program ── its children
//	  └───── socket ──────┘           │
//	  └──── pipes: 0 1 2, frames 3 4 ─┘
//
// The watcher, this binary too, is the guardian's parent and the subreaper above it. It does nothing until the guardian
// has ended, and then ends every process that is left. So no process is left even when node and guardian are killed
// together.
//
// The guardian is the same binary. The initialization of this package runs it, before main, and before most other packages are
// initialized, so that it has little in memory. main and TestMain call RunHelper as their first, so that the package is linked.
//
// Its tests take long: they start and end real programs, and wait out the pauses between a cancel, SIGTERM and SIGKILL.
package process
