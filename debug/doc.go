// Package debug shows what lives inside a node: the tree of its actors, each with its state, mailbox and last
// failure, and the Go profiler. It only reads what actors.Registry keeps, which never waits for an actor, so it
// answers also while they are stuck. The API mounts Actors behind its read scope; the node serves Profiler on a
// loopback listener of its own, where that is asked for.
//
// It also shows the trees of the other nodes. Cluster asks them when somebody looks, through a function that the node gives
// it, keeps what each said last, and says how old that is; Inspector is what answers on the other side. Both decide
// nothing: who lives is for membership, and how a question travels for peers. The page in page/ shows the same
// to a browser.
package debug
