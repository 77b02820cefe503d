package rollup

import (
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
)

const codeMax = 128 // bytes of an error's code, as long as one may be: a filter by a code compares all of it

// End is an execution that ended.
type End struct {
	Key
	At        time.Time
	Wait, Run time.Duration // negative: it never started
}

// EndOf is an execution's end as it is counted.
func EndOf(e *messages.Execution, status messages.Status, at time.Time) End {
	end := End{At: at, Wait: -1, Run: -1, Key: Key{Pool: e.Pool, Action: e.Action, Version: e.Version, Status: status}}
	if e.Error != nil {
		end.Code = e.Error.Code
		if len(end.Code) > codeMax {
			end.Code = messages.Code(strings.ToValidUTF8(string(end.Code[:codeMax]), ""))
		}
	}
	if e.StartedAt.IsZero() {
		return end
	}
	due := e.RequestedAt
	if e.RunAt.After(due) {
		due = e.RunAt
	}
	end.Wait = max(0, e.StartedAt.Sub(due))
	if !e.FinishedAt.IsZero() {
		end.Run = max(0, e.FinishedAt.Sub(e.StartedAt))
	}
	return end
}
