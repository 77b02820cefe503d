package messages

import (
	"encoding/json"
	"fmt"
	"time"
)

// RunEvent is one live event of a running execution.
type RunEvent struct {
	Kind     string // stdout, stderr, progress, chunk, log, notice
	At       time.Time
	Data     []byte          // stdout, stderr
	Chunk    json.RawMessage // chunk
	Fraction float64         // progress; negative: none given
	Level    string          // log
	Message  string          // progress, log, notice
}

// NotKept is the notice that stands in the place of entries that were dropped before they were read.
func NotKept(entries uint64, at time.Time) RunEvent {
	text := fmt.Sprintf("%d entries before this one were not kept", entries)
	if entries == 1 {
		text = "1 entry before this one was not kept"
	}
	return RunEvent{Kind: "notice", At: at, Fraction: -1, Message: text}
}

// Size is about what the event takes in memory, so that many empty ones have a bound too.
func (e *RunEvent) Size() int {
	const fixed = 160
	return fixed + len(e.Data) + len(e.Chunk) + len(e.Level) + len(e.Message)
}
