// Package roster is the exact view that a pool's router has of its pool: the workers with what is placed or running on each, the
// sessions with their order, and the due executions that wait. Step takes one event and the time, and returns what must be done. It decides
// when to load executions, where to place them, and what to publish, take back, fail and unbind.
//
// It is pure: no clock, log, goroutine or I/O. The pool's router owns one Roster, carries its effects out, and brings the results
// back as events. What is lost on the way is repaired by the store's guarded changes and by sweeps.
//
// Some cases have more than one sensible answer. These were chosen:
//   - Package placement chooses the worker and the session. The roster adds order, capacity and time.
//   - A cordoned or draining worker with a fresh heartbeat counts as busy. A cordon will be lifted, and a node that drains must not make
//     the whole backlog of the pool fail.
//   - When a placement is released, what waits of its session here is forgotten and loaded again. The released execution comes first
//     again, and only the store knows the order.
//   - An execution that was refused, failed or withdrawn is not looked at again before the next Tick. Otherwise an outcome that is
//     not stored yet could make the roster repeat the same step without end. What is refused is looked at once more before: at once
//     where its session is to blame, otherwise when something has become due.
//   - Only healthy workers get work ahead of their runs. What waits on a worker that becomes degraded is taken back.
package roster
