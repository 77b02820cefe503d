// Package debug shows what lives inside a node: the tree of its actors, each with its state, its mailbox and its last failure, and the Go
// profiler. It only reads what actors.Registry keeps. The registry never waits for an actor, so the view answers while actors are
// stuck. The API serves Actors behind its read scope. The node serves Profiler on a loopback address of its own, where the
// configuration asks for it.
//
// It also shows the trees of the other nodes. Cluster asks them when somebody looks, by a function that the node provides. It keeps the last
// answer of each, and says how old that is. Inspector answers the other nodes' questions. Neither decides anything: membership
// decides which nodes live, and peers carries the questions. The page in page/ shows the same in a browser.
package debug
