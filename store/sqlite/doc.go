// Package sqlite is the embedded store: one SQLite file (write-ahead log, synchronous FULL) for one process at a time.
// An advisory lock on <file>.lock ensures that for as long as the store is open. It makes no decisions about placement
// or retries. It makes the changes of package store and answers its queries. The node's assembly opens it.
//
// # Writing
//
// One goroutine writes. While it commits one group of calls, the next group collects. So calls share transactions, no
// call waits for a timer, and a single caller pays one commit. A failed group is repeated with each call in its own
// transaction and each change in its own savepoint, so that an error of one row affects only that row. A call whose
// context ends while it waits may or may not have been made: every call may be repeated. If the queue is full, callers
// block.
//
// The writer caches the rows that it used last, decides every change on them, and repeats the comparison of (seq,
// status, attempt) in each UPDATE.
//
// # Tables and indexes
//
// The request of an execution is in request and is written once. Its state is in execution, which is narrow. A short
// outcome is in the same row, a long one in outcome, and the output in output. Each change affects these entries of
// indexes:
//
//	submit              request_id, request_action, execution_waiting; execution_session if it has a session
//	place               execution_waiting, execution_active
//	claim               none
//	finish, completed   execution_active
//	finish, otherwise   execution_active, execution_unusual
//	take back, rescue   execution_active, execution_waiting
//
// Only an execution with a label, a deadline, a run_at ahead or a session has rows in the tables for these. Turn, busy
// and head hold a session's executions, so that a look costs one step for each candidate, however long a session's line
// is, and however many wait or are busy. A list by label, session, action or unusual status walks an index. A list by pool, by worker,
// or of completed executions looks back over a bounded stretch for a page.
//
// # Cost
//
// The connections (conn) call the library directly, without its mutex, and copy arguments to memory of their own.
// Placing, claiming and finishing 60,000 executions in groups of 500 took 17 µs of processor time each, with commits,
// looks and garbage collection. With the driver and an index for every filter it took 34 µs (2 cores,
// BenchmarkWorkOff). The checkpointer copies the log to the file at the same time as the writer works.
//
// # Time
//
// All times come from one clock that never goes back while the process lives. A jump forward makes sweeps act early and
// costs at most an extra attempt.
//
// # Space
//
// Purge frees pages for reuse; the file does not shrink. On a full disk writes return store.ErrFull and reads continue.
// Writes continue once there is space.
//
// Its tests take long: each history of the suite runs on files that are synced to the disk, also with faults, and one
// file gets 120,000 rows.
package sqlite
