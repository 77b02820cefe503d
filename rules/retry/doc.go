// Package retry decides what may be repeated: for which errors a repeat can help (Classify), how long to wait (Delay), whether an
// execution that ended gets a retry execution (Decide, Manual, Next), and what becomes of an execution whose worker was lost (Rescue).
//
// It is pure: the time, the random source and the new id are arguments. Every write of an outcome asks it first, so that an outcome and its
// retry are one transaction.
package retry
