// Package process is the port between a worker and the operating-system process that does its work: it starts
// programs, speaks frames with them, captures what they print, watches what they use, ends them, and says how they
// ended. It never decides when a program is to be stopped or replaced; the worker actor does, with a Ladder.
//
// Every program is the child of a guardian: this binary, executed again by Guardian. The guardian outlives a killed
// node for the second it needs to end everything the node had, is the subreaper of what programs leave behind, and is
// the only process that signals or reaps them, so no signal can hit a pid that now belongs to somebody else.
//
// Where a cgroup v2 is writable every program also has a group of its own, so that its descendants are known whatever
// they do; where the memory and pids controllers are delegated, the kernel holds the limits (see meansFor).
//
//	node ── watcher ── guardian ── program ── its children
//	  └───── socket ──────┘           │
//	  └──── pipes: 0 1 2, frames 3 4 ─┘
//
// The watcher, this binary too, is the guardian's parent and the subreaper above it. It does nothing until the guardian has
// ended, and then ends whatever is left: so a node and a guardian that are killed together leave nothing either.
//
// main and TestMain call RunHelper before anything else, because the guardian is the same binary.
//
// Its tests take long: they start and end real programs, and wait out the pauses between a cancel, SIGTERM and SIGKILL.
package process
