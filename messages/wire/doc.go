// Package wire converts what nodes tell one another between Troupe's vocabulary and the wire contract of
// proto/troupe/v1. It judges the form of what came (lengths, ids, ranges, bounds) and nothing else: whether a
// message is stale or allowed is for its receiver. It does no I/O and holds no state; peers is its caller.
package wire
