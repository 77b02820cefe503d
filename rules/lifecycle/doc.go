// Package lifecycle decides what the lifecycle of a worker allows. It owns the states, the closed set of reasons, the one table of legal
// transitions, the machine that each worker has, and what follows from a failure (Recover).
//
// It is pure: it reads no clock, starts nothing and logs nothing. The worker actor owns a Machine and carries its transitions out. The pool's
// supervisor asks Recover and carries its verdicts out.
//
// A few pairs of state and reason have two possible next states: a failed probe makes a ready worker degraded, and the third one in a row
// terminates it. So an edge is a triple (from, to, reason). Next returns the less severe state of such a pair.
package lifecycle
