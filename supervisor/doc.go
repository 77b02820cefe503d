// Package supervisor holds the supervising actors: the Group, which starts its children left to right and starts again
// what fails (who stops a tree stops its groups in reverse); the Member, which renews the node's lease; and the Pool.
//
// A Pool is one actor of three parts, which know each other by narrow interfaces. Workers starts, probes, restarts and
// replaces one node's workers of one pool. Link has what was delivered to them and runs, and reports what becomes of it to one
// router: that of this node, or that of another node while this one follows it (package lead). Router places executions, as package
// roster decides, on the workers of all nodes that report to it; those of its own node are one follower's among others.
// docs/lab/pool.md says who owns what, and what happens when a part fails.
//
// The parts carry out and decide nothing that a pure package decides: placement and dispatch are the roster's, who routes is
// lead's, restarts the restart tracker's, a lost run's fate retry's. Everything that waits for a store, a broker, a process
// or another node runs beside the actor (actors.World) and comes back as one message.
//
// Its tests take long: pools run on a store in a file, and the reports between nodes go over a connection that fails.
package supervisor
