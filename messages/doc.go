// Package messages is Troupe's vocabulary: identities, executions, outcomes, actions and the closed sets of
// words (statuses, codes, runtimes) that every other package speaks. It decides nothing, holds no state and does
// no I/O; every package may import it, and it imports only the standard library and the uuid package.
package messages
