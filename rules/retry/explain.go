package retry

import (
	"fmt"

	"github.com/troupe-run/troupe/messages"
)

// Explain says in a sentence what a denial means for the execution, for people.
func (d Denial) Explain(e *messages.Execution) string {
	switch d {
	case DeniedCompleted:
		return "it is completed: nothing is left to repeat; submit a new execution to run its action again"
	case DeniedCancelled:
		return "it was cancelled, which no retry follows by itself"
	case DeniedMax:
		if e.MaxRetries == 0 {
			return "max_retries is 0; set it on the action or the submission"
		}
		return fmt.Sprintf("retry %d of at most %d was the last", e.RetryCount, e.MaxRetries)
	case DeniedConsent:
		return "its worker was lost while it ran, and nobody allowed to repeat what it may have done; set idempotent or max_retries on the action, or max_retries on the submission"
	case DeniedLeaked:
		return "its handler would not end and may still be running; set idempotent to allow a repeat"
	case DeniedPoisoned:
		return fmt.Sprintf("it took down %d workers", PoisonLimit)
	case DeniedRetried:
		return fmt.Sprintf("it was already retried as %s", e.RetriedAs)
	case DeniedRunning:
		return fmt.Sprintf("it is %s; cancel it or wait for its end", e.Status)
	case DeniedUnknown:
		return "the rules of the time when it ended allowed none"
	case DeniedDisabled:
		return "retries are switched off (retry.enabled)"
	}
	return d.explainError(e)
}

// explainError is about denials that rest on the error.
func (d Denial) explainError(e *messages.Execution) string {
	what := "its error"
	if e.Error != nil && e.Error.Class != "" {
		what = "its error, of class " + e.Error.Class + ","
	}
	switch d {
	case DeniedFinal:
		return what + " is final: a repeat would end the same way"
	case DeniedByWorker:
		return "the action's code itself calls its error final"
	case DeniedNeverOn:
		return what + " is listed in the action's retry.never_on"
	case DeniedNotOn:
		return what + " is not listed in the action's retry.on"
	case DeniedUnclassified:
		return "no rule knows " + what + " and retry.unclassified is final"
	}
	return string(d)
}
