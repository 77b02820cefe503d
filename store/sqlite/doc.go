// Package sqlite is the embedded store: one SQLite file (write-ahead log, synchronous FULL), used by one process at a
// time, which an advisory lock on <file>.lock guards for as long as the store lives. It decides nothing about placement
// or retries; it makes the changes of package store and answers its questions. The node's assembly opens it.
//
// # Writing
//
// One goroutine writes. While it commits one group of calls, the next collects, so calls share transactions by
// themselves, nobody waits for a timer, and a lone caller pays one commit. A group that fails is made again, each call
// in a transaction and each change in a savepoint of its own, so that what is wrong with one row fails that row alone.
// A call whose context ends while it waits may or may not have been made: every call may be repeated. When the queue is
// full, callers wait before it.
//
// The writer keeps the rows it worked on last at hand, decides every change on them, and repeats the compare on
// (seq, status, attempt) in each UPDATE.
//
// # Tables and indexes
//
// What was asked is in request, written once; where an execution stands is in execution, which is narrow; a short
// outcome stands in the same row, a long one in outcome, and what was printed in output. Each change touches these
// entries of indexes:
//
//	submit              request_id, request_action, execution_waiting; execution_session where it has a session
//	place               execution_waiting, execution_active
//	claim               none
//	finish, completed   execution_active
//	finish, otherwise   execution_active, execution_unusual
//	take back, rescue   execution_active, execution_waiting
//
// Only rows that have a label, a deadline, a run_at ahead or a session pay for those tables: a session's executions keep
// turn, busy and head, so that a look for work costs one step a candidate, however deep a session is, however many wait
// and however many of them are busy. A list by label, session, action or unusual status walks an index; by pool, by
// worker, and of what completed, it looks back over a bounded stretch a page.
//
// # Cost
//
// The connections (conn) call the library itself, without its mutex, and copy arguments to memory of their own. Placing,
// claiming and finishing 60,000 executions in groups of 500 took 17 µs of processor time each, commits, looks for work
// and garbage collection included, where the driver and an index for every filter took 34 (2 cores, BenchmarkWorkOff).
// The log is copied to the file beside the writer (checkpointer).
//
// # Time
//
// All times come from one clock that never goes back while the process lives. A jump forward makes sweeps act early and
// costs at most an extra attempt.
//
// # Space
//
// Purge frees pages for reuse; the file does not shrink. On a full disk writes say store.ErrFull, reads go on, and so
// do writes once there is space.
//
// Its tests take long: each history of the suite runs on files that are synced to the disk, also with faults, and one file gets 120,000 rows.
package sqlite
