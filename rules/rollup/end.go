package rollup

import (
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
)

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
		if len(end.Code) > messages.CodeMax { // of before codes were bounded; a filter by a code compares all of it
			end.Code = messages.Code(strings.ToValidUTF8(string(end.Code[:messages.CodeMax]), ""))
		}
	}
	if e.StartedAt.IsZero() {
		return end
	}
	end.Wait = max(0, e.StartedAt.Sub(e.Due()))
	if !e.FinishedAt.IsZero() {
		end.Run = max(0, e.FinishedAt.Sub(e.StartedAt))
	}
	return end
}
