//go:build !mutant

package actors

import "github.com/troupe-run/troupe/messages"

// judgedAttempt is the attempt that a dead letter speaks of: the one that it names, whatever has become of the execution.
func judgedAttempt(_ *messages.Execution, letter messages.Placement) messages.Attempt {
	return letter.Attempt
}
