// Package failures groups executions that failed by what they have in common, so that a thousand failures of one cause are one line. It
// decides when two messages say the same: numbers, ids and quoted texts of a message do not count.
//
// It is pure, and keeps a bounded number of groups.
package failures
