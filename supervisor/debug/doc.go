// Package debug shows what lives inside a node: the tree of its actors, each with its state, mailbox and last
// failure, and the Go profiler. It only reads what actors.Registry keeps, which never waits for an actor, so it
// answers also while they are stuck. The API mounts Actors behind its read scope; the node serves Profiler on a
// loopback listener of its own, where that is asked for.
package debug
