// Package actors holds Troupe's actors below the pool supervisor, one file each, in the order work flows: the
// delivery bridge, the worker, the recorder, the dead-letter bridge, the monitors; beside them the ways in and out:
// intake (submissions by broker), updates (what others did to the store), notices and webhooks (outcomes for others); and the few helpers that every
// actor is built with: Spawn, Ask, StopAndWait and the Registry that knows every live actor.
//
// Actors carry out; they decide nothing that a pure package can decide. Receive is a switch, never blocks, and
// treats what it does not know by counting it. An actor reaches the clock, timers, randomness and work beside it through its
// World. What waited or ran beside it comes back as one message, Resume, which an actor started after it drops.
//
// Spawn is the only place that builds an actor. It gives each one a mailbox that is safe to post to before the actor
// is wired, a guard around its lifecycle, an entry in the Registry, and supervision by stop and respawn: a panic
// stops the actor, and its parent decides, on Terminated, whether and when a new one starts. Nothing is ever
// restarted in place.
//
// Its tests take long: workers run real programs, and wait out probes, pauses and time limits.
package actors
