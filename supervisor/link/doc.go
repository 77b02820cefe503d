// Package link is between the workers of one pool on this node and the router that places on them. It holds what has been delivered
// here and what runs here, and reports what becomes of it to one router: that of this node by calls, or that of another node over
// peers while this one follows it (package lead). For the router of this node it takes the reports of other nodes.
//
// It knows both ends as interfaces, Workers and Router. The pool's actor (package supervisor) calls it with deliveries, the store's
// answers and reports.
package link
