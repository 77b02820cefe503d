// Package roster is the exact view that a pool's router has of its pool: the workers and what is placed or running on
// each, the sessions and their order, and the due executions that wait. Step takes one event and the time and returns
// what must be done; it decides when to load, where to place, what to publish, take back, fail and unbind.
//
// It is pure: no clock, log, goroutine or I/O. The pool supervisor that holds the router's lease owns one Roster,
// carries its effects out and brings their outcomes back as events; whatever is lost on the way, the store's guarded
// changes and sweeps make up for it.
//
// Rules that the contract leaves open, and why they are as they are:
//   - Where a session or worker is chosen, package placement decides; the roster adds order, capacity and time.
//   - A cordoned or draining worker with a fresh heartbeat counts as busy: a cordon is an operator's passing intent,
//     and a node that drains must not fail the pool's whole backlog on its way out.
//   - What a released placement's session has waiting here is forgotten and loaded again, because the released
//     execution comes first again, and only the store knows the order.
//   - A candidate that was refused, failed or withdrawn is not looked at again before the next Tick, so that an
//     outcome that is not yet stored cannot make the roster spin.
//   - Only healthy workers are dispatched ahead to: what waits on a worker is taken back when it turns degraded.
package roster
