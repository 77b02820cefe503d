// Package hub reads what is live on a node once for all who follow it, and tells each the differences.
//
// A topic is an answer of the API, such as one list. While somebody follows it, the hub reads it once a tick, compares it with what it
// was, and queues the difference for every reader. The newest events stay in a ring, so that a reader whose connection was lost goes on
// where it was. A flow is a topic that says something as it comes, such as what a run writes: its readers take that from a log, each at its
// own pace. Without readers nothing is read, and the node's recorder spends one atomic load on a transaction.
//
// What a difference is, package rules/live decides. The hub knows no HTTP and no store: package api gives it topics and writes to
// readers, package node tells it of changes.
package hub
