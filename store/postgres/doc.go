// Package postgres is the store that several nodes share: Postgres 15 or newer, by pgx's native interface. It decides
// nothing about placement or retries; it makes the changes of package store and answers its questions. The node's
// assembly opens it, and `troupe migrate` and `troupe doctor` use Migrate and Status.
//
// # Parts
//
// Each part of the port is a type of its own (parts.go): executions as they are changed, submitted and read, nodes, workers, sessions and so
// on. They share a core, which has the connections and carries out a statement or a transaction, and where they need it the memory of rows.
// Store embeds them, since the port asks for one value.
//
// # Writing
//
// Calls of Submit, and of Apply, share transactions: while one is in flight, the next collects (grouper), so nobody waits
// for a timer and a lone caller pays one commit. A second group of submissions is begun beside one that takes longer than
// patience, one of changes at once. A group becomes one pipeline of statements of up to 500 rows (1,000 for inserts), which
// the server runs as one transaction without waiting for this process in between: a process that freezes holds no lock.
// What fails on one row's data is made again in halves until that row stands alone.
//
// Changes of the straight path (place, claim, finish) are lean statements, bare compare-and-sets that read nothing first. Those of executions
// with a session go in a transaction of their own, which locks the session's lane first, in order of name; a later statement of the
// transaction, whose snapshot is younger than the lock, counts the lane anew. What a lean statement does not match, and every other change,
// is decided: the row is read without a lock, store.Decide says what becomes of it, and what takes effect is written by a compare-and-set on
// all that was read and matters (status, attempt, last change, the session's epoch and worker), again for what has moved on meanwhile. The
// lean statements are held to store.Decide by the suite.
//
// A call that fails with store.ErrUnavailable may or may not have been made, and may be repeated. Every call ends, also
// where its caller would wait for ever and the server or the network is silent: those in groups after callTimeout, others
// after readTimeout.
//
// Locks are taken in one order: lanes by name, sessions by name, executions by id; nodes, then routers by pool. Only groups of the straight path,
// which lock rows statement by statement, can meet in another order; what the server then ends (40P01) is made again.
//
// # Tables and indexes
//
// What was asked is in request, written once; where an execution stands is in execution, narrow and with fillfactor 30.
// Each partial index of execution has a column of its own that is NULL for all other rows (rank, turn, timer_at,
// on_worker, unusual, queue_by, worker_by, start_since), so that no index mentions status: a claim is a heap-only update
// (but for an execution with a queue deadline, which leaves the index of those), a placement and a finish are not. Of 500
// that are placed and claimed together, all 500 claims are heap-only, and 275 while a snapshot, as of a report, keeps the
// server from clearing what the placements left behind; on full pages it would be none. Keeping what waits and what runs
// in side tables instead made all three heap-only and was no faster: 100,000 executions in groups of 500 took 26 and 34 µs
// each for the three updates with the columns, 32 and 30 µs with side tables, for the same 96 MB of log (two runs each,
// one connection, with commits).
//
// The connection's planner settings leave it one plan for each statement, by index and nested loops, made once: tables
// that grow from nothing to millions between two statistics must not change it.
//
// # Other connections
//
// Beats have a connection of their own, which holds the incarnation's advisory lock: others see at once when it is gone
// (Node.Present). Hints come over another, by LISTEN on the channel "troupe.<schema>". Notifications are sent once a
// transaction for each pool, for each running execution that is cancelled, and one for up to 300 finished executions; the
// first for what is submitted, and the last, only while other nodes are alive, since a node tells itself. One more says that
// pools were given up, or that an ended node led some.
//
// # Time and text
//
// All times are the server's, in microseconds; within one transaction they are that of its start. A text that Postgres
// cannot hold (a NUL byte, no UTF-8) is kept as \x and hex; see encodeText.
//
// Its tests take long: they run every history on a real server, move results of many MiB, and kill and freeze servers of their own.
package postgres
