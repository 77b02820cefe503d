// Package operate answers questions about every node and carries out an operator's commands on every node. A caller may be
// at any node. What is asked about this node's own pools is answered here; what is asked about another node's workers or runs
// is asked of that node over the peers; what is asked about all nodes is put together from all of them, and from the rows in
// the store for those that do not answer.
//
// It owns no pool, no worker and no connection. It reaches them over the ports of Config. It decides nothing about leases or
// placement: every change that it makes is a change of a row, or a message to a pool that changes rows.
//
// Nodes knows which incarnations there are and how this node stands with each (nodes.go). Calls asks one of them (calls.go).
// The parts of Operator are the questions and commands: executions.go, follow.go, output.go, why.go, timeline.go, fleet.go, steer.go,
// cordons.go, sessions.go. answers.go answers the same for other nodes. The types of the answers are those of operate/view; api
// maps them to HTTP.
package operate
