// Package supervisor holds the supervising actors: the Group, which starts its children left to right and starts again
// what fails (who stops a tree stops its groups in reverse); and the Pool, which starts, probes, restarts and replaces
// one node's workers of one pool and places executions on them as package roster decides: on its own alone, on those of
// other nodes too where it leads the pool, and on none while it follows another node's router (package lead).
//
// The Pool carries out and decides nothing that a pure package decides: placement and dispatch are the roster's, who routes is
// lead's, restarts the restart tracker's, a lost run's fate retry's. Everything that waits for a store, a broker, a process
// or another node runs beside it and comes back as a message.
package supervisor
