//go:build mutant

package actors

import (
	"os"
	"strings"

	"github.com/troupe-run/troupe/messages"
)

// judgedAttempt has the planted fault status_only: a dead letter ends whatever attempt is scheduled now. The chaos suite
// must find it.
func judgedAttempt(e *messages.Execution, letter messages.Placement) messages.Attempt {
	if strings.Contains(os.Getenv("TROUPE_MUTANT"), "status_only") {
		return e.Attempt
	}
	return letter.Attempt
}
