// Package workers supervises the workers of one pool on one node: their slots and generations, restarts, replacements, probes,
// number, cordons and history. What is placed on them, and who routes for them, it does not know: it reports to its Link.
//
// The pool's actor (package supervisor) calls it with what comes for the workers, and package link with what the router orders.
// Restarts are the restart tracker's to decide, the number is package scale's.
package workers
