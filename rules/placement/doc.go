// Package placement decides which worker of a pool gets an execution. A Table keeps the pool's workers and sessions in an order in
// which the answer is ready: Pick looks at the heads of a few lists, whatever the size of the pool, and allocates nothing.
//
// It is pure: it is given workers, sessions and the time, and returns values. The roster has one Table for each pool. It asks Pick for each
// due execution and gives what it chose to Commit. The store's epochs make sure that two routers never bind one session to two
// workers.
//
// Some cases have more than one sensible answer. These were chosen:
//   - A worker that is stale or unhealthy counts as absent. Nothing waits for it, and a session bound to it is lost. A worker
//     that is cordoned, full, starting or being replaced counts as busy. Work waits for it.
//   - A full worker gets more when half of what it had has ended, and then as much as it may have. A few messages and transactions with
//     several placements cost less than many with one. Its own sessions may use it while it has room, so that no
//     session moves or fails for this rule. A round ends when no worker is to get more, and the work of those sessions then waits for the
//     next round too.
//   - A session that is bound to a cordoned worker ends when it is idle, as any other. Its later work goes to another worker, with
//     the note that the state is lost. A session does not end as idle while its work waits for a busy worker.
//   - The first execution of a session never gets a note of a loss: there was nothing to lose.
//   - With strict_fail, one loss is reported once, as session_lost. The next execution binds the session anew and sees session.lost.
package placement
