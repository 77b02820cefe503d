// Package lifecycle decides what a worker's lifecycle may do: the states, the closed set of reasons, the one table of
// legal transitions, the machine that a worker holds, and what follows from a failure (Recover).
//
// It is pure: it reads no clock, starts nothing and logs nothing. The worker actor holds a Machine and carries its
// transitions out; the pool supervisor asks Recover and carries its verdicts out.
//
// A few pairs of state and reason lead to two states (a failed probe degrades a ready worker, the third one in a row
// terminates it), so an edge is the triple (from, to, reason), and Next returns the milder end of such a pair.
package lifecycle
