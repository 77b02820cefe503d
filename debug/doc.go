// Package debug shows the inside of a node: the tree of its actors, each with its state, its mailbox and its last
// failure, and the Go profiler. It only reads actors.Registry. The registry never waits for an actor, so the view works
// while actors hang. The API serves Actors with the scope read. The node serves Profiler on a separate loopback
// address, if configured.
//
// It also shows the trees of the other nodes. Cluster asks them on request, by a function of the node. It keeps the
// last answer of each, and shows its age. Inspector answers the requests of other nodes. membership decides which nodes
// live, and peers transports the requests.
package debug
