// Package health grades workers. Counters collects what a worker's executions and probes showed, Evaluate turns a
// sample of them into a grade with its causes, and Capabilities is how a grade travels with the heartbeat.
//
// It is pure: ages are computed by whoever holds the store's clock and handed in. Worker actors keep the counters;
// the pool supervisor, the roster and the API evaluate them.
package health
