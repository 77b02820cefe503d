// Package placement decides which worker of a pool takes an execution. Table holds the pool's workers and sessions
// in an order in which the answer stands ready: Pick looks at a handful of list heads, whatever the pool's size, and
// allocates nothing.
//
// It is pure: it is told of workers, sessions and the time, and answers with values. The roster owns one Table for
// each pool, asks Pick for each due candidate and tells Commit what it took up; the store's epochs make sure that two
// routers never bind one session to two workers.
//
// Rules that the table's words leave open, and why they are as they are:
//   - A worker that is stale or unhealthy is absent: it is no reason to wait, and a session bound to it is lost. A worker
//     that is cordoned, full, starting or being replaced is busy: work waits for it.
//   - A worker that was full is given more when half of it has ended, and then as much as it may have: few messages and
//     transactions with several placements cost less than many with one, and until then it has enough to do. To its own
//     sessions it stays free while it has room, so that none of them moves or fails for it; but a round ends when no
//     worker is to be given more, and then theirs wait for the next too.
//   - A session bound to a cordoned worker idles out like any other, so its work moves on, told of the loss.
//     A session whose work waits for a busy worker does not idle out.
//   - The first execution of a session is told of no loss, for there was nothing to lose.
//   - strict_fail is told of one loss once, by session_lost; the execution after it binds anew and sees session.lost.
package placement
