// Package lead decides what one node is to one pool of the cluster, and what a pool's router makes of what the other
// nodes report. It is pure: the pool supervisor tells it the news with the time, and carries out what follows.
//
// A pool is in one of three modes on each node (Edges is the table):
//
//	alone      it routes for its own workers. So it begins, and so it goes on wherever no router can be followed: the node
//	           has no end of the remoting, the router cannot be reached, serves other actions, or has lost a server.
//	leading    the store says that this node is the pool's router: it routes for its own workers and for those of the
//	           nodes that report to it.
//	following  it places nothing, and reports to the router.
//
// Nothing rests on there being one router at a time: placements are compare-and-sets, so two of them for a moment, or for
// as long as a partition lasts, cost tries in vain and no more. What must hold is that work goes on. So a node follows
// only once the router has taken a whole report of its share, and stops when the router has taken nothing for Patience.
// A router lets a node's workers go from its view after as long without a report.
//
// Reports go one at a time. After one whose fate is not known, and at least every WholeEvery, the next is whole: it
// replaces all that the router knew of that share, so that nothing which was lost stays lost. Judge says what a router
// does with one, and Reconcile what a whole one means for the runs that it does not show.
package lead
