// Package lead decides what one node is for one pool of the cluster: router, follower, or a router for its own workers alone. It also
// decides what a router does with the reports of other nodes. It is pure. The pool's supervisor gives it events and the time, and
// carries out what it returns.
//
// On each node a pool is in one of three modes. Edges is the table of their changes.
//
//	alone      The node routes for its own workers. Every pool starts in this mode. It stays in it while no router can be followed:
//	           the node has no connection to its peers, the router cannot be reached or serves other actions, or the router has
//	           lost a server.
//	leading    The store names this node as the pool's router. It routes for its own workers and for those of the nodes that
//	           report to it.
//	following  The node places nothing. It reports its workers to the router.
//
// Two routers at one time are safe: a placement is a compare-and-set, so only one of them succeeds, and the other has tried in vain. This
// may last as long as a partition. What must hold is that work goes on. So a node follows a router only once the router has accepted
// a whole report, and stops to follow when the router has accepted nothing for Patience. A router removes the workers of a node
// from its view when it has heard nothing of that node for as long.
//
// A node has one report under way at a time. The next one is whole where the fate of the last is not known, and at least every
// WholeEvery. A whole report replaces all that the router knew of the node's workers, so what was lost on the way is repaired. Judge says
// what a router does with a report. Reconcile says what becomes of runs that a whole report does not show.
package lead
