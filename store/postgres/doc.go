// Package postgres is the store that several nodes share, on Postgres 15 or newer, through pgx's native interface. It
// makes no decisions about placement or retries. It makes the changes of package store and answers its queries. The
// node's assembly opens it. `troupe migrate` and `troupe doctor` use Migrate and Status.
//
// # Parts
//
// Each part of the port is a type of its own (parts.go): changing, submitting and reading executions, nodes, workers,
// sessions and so on. They share a core, which holds the connections and runs a statement or a transaction, and some
// share the memory of rows. Store embeds them, because the port asks for one value.
//
// # Writing
//
// Calls of Submit share transactions, and so do calls of Apply. While one transaction is in progress, the calls for the
// next one collect (grouper). So no call waits for a timer, and a single caller pays one commit. A second group of
// submissions starts if the first one takes longer than patience; a second group of changes starts at once. A group is
// one pipeline of statements of up to 500 rows (1,000 for inserts). The server runs it as one transaction without
// waiting for this process in between, so a process that freezes holds no lock. If the data of one row fails, the group
// is repeated in halves until that row is alone.
//
// Changes of the straight path (place, claim, finish) are lean statements: compare-and-sets without a read before them.
// Those of executions with a session use a transaction of their own. It first locks the sessions' lanes, in order of
// name. A later statement of the transaction has a snapshot younger than the lock and counts the lane again. Every
// other change, and a change that a lean statement does not match, is decided: the row is read without a lock,
// store.Decide decides, and a change that takes effect is written by a compare-and-set on all read values that matter
// (status, attempt, last change, the session's epoch and worker). If the row changed meanwhile, this is repeated. The
// suite compares the lean statements with store.Decide.
//
// A call that fails with store.ErrUnavailable may or may not have been made, and may be repeated. Every call ends, even
// if its caller sets no timeout and the server or the network is silent: calls in groups after callTimeout for each 16
// MiB of a group, others after readTimeout.
//
// Locks are taken in one order: lanes by name, sessions by name, executions by id; nodes, then routers by pool. Only
// groups of the straight path lock rows statement by statement and can deadlock. A transaction that the server then
// ends (40P01) is repeated.
//
// # Tables and indexes
//
// The request of an execution is in request and is written once. Its state is in execution, which is narrow and has
// fillfactor 30. Each partial index of execution has its own column, which is NULL for all other rows (rank, turn,
// timer_at, on_worker, unusual, queue_by, worker_by, start_since). No index mentions status, so a claim is a heap-only
// update. The exception is an execution with a queue deadline, because it leaves that index. A placement and a finish
// are not heap-only. If 500 executions are placed and claimed together, all 500 claims are heap-only; 275 are while a
// snapshot, for example of a report, keeps the server from removing the old row versions of the placements. On full
// pages none would be. Side tables for waiting and for running executions made all three updates heap-only and were no
// faster: 100,000 executions in groups of 500 took 26 and 34 µs each for the three updates with the columns, and 32 and
// 30 µs with side tables, for the same 96 MB of log (two runs each, one connection, with commits).
//
// The planner settings of the connections leave one plan for each statement, by index and nested loops, made once:
// tables that grow from nothing to millions of rows between two statistics must not change it.
//
// # Other connections
//
// Beats have a connection of their own. It holds the incarnation's advisory lock, so other nodes see at once when it is
// gone (Node.Present). Hints arrive on another one, by LISTEN on the channel "troupe.<schema>". A transaction notifies
// once for each pool with new executions, once for each running execution that is cancelled, and once for up to 300
// finished executions. New submissions and finished executions are notified only while other nodes live, because a node
// tells itself. One more notification says that pools were given up, or that an ended node led some.
//
// # Time and text
//
// All times are the server's, in microseconds. Within one transaction they are the time of its start. A text that
// Postgres cannot store (with a NUL byte, or not UTF-8) is stored as \x and hex; see encodeText.
//
// Its tests take long: they run every history on a real server, move results of many MiB, and kill and freeze servers
// of their own.
package postgres
