// Package timeline says where the time of one execution went. From its row, its events, its retry chain, the executions of its
// session before it, and the journal, Of makes lanes of intervals: what it waited for, its placements, its runs, and what became of
// its worker, node, session and servers meanwhile.
//
// The intervals of the wait cover the time from the request to the start without a gap and without an overlap. Each has a cause
// and the record that shows it. A time that no record explains is unknown. A cause is never a guess.
//
// It is pure. Times are those of the store's clock.
package timeline
