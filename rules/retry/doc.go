// Package retry is the one judge of what may be repeated: which errors a repeat may help (Classify), how long to wait
// (Delay), whether an execution that ended gets a retry execution (Decide, Manual, Next), and what becomes of an
// execution whose worker was lost (Rescue).
//
// It is pure: now, the random source and the new id are handed in. The recorder asks it inside every terminal write,
// so that an outcome and its retry are one transaction.
package retry
