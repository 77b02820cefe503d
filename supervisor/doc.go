// Package supervisor holds the supervising actors: the Group, which starts its children left to right and starts again
// what fails (who stops a tree stops its groups in reverse); the Member, which renews the node's lease; and the Pool.
//
// A Pool is one actor with three parts, which meet in its mailbox and know each other by narrow interfaces. Package workers starts,
// probes, restarts and replaces one node's workers of one pool. Package router places executions, as package roster decides, on the
// workers of all nodes that report to it; those of its own node are one follower's among others. Package link is between them: it
// has what was delivered to the workers and runs, and reports what becomes of it to one router, that of this node or of another.
// docs/lab/pool.md says who owns what, and what happens when a part fails.
//
// The Pool hands each message to the part that it is for, and flushes what the parts gathered meanwhile. Neither it nor the parts
// decide what a pure package decides. Everything that waits for a store, a broker, a process or another node runs beside the actor
// (actors.World) and comes back as one message.
//
// Its tests take long: pools run on a store in a file, and the reports between nodes go over a connection that fails.
package supervisor
