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
// What was asked is in request, written once; where an execution stands is in execution, which is narrow; outcome and
// output hold bytes. An insert writes five index entries: request_id, request_action, execution_waiting,
// execution_pool and, with a session, execution_session. A placement moves execution_waiting, execution_active and
// execution_worker; a claim touches no index; a finish moves execution_active and execution_ended. Only rows that have
// a label, a deadline, a run_at ahead or a turn to wait for pay for those tables. Due costs one index step a candidate,
// and one a waiting session, however deep each session is.
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
package sqlite
