package messages

import (
	"encoding/json"
	"time"
)

// RunEvent is one live event of a running execution.
type RunEvent struct {
	Kind     string // stdout, stderr, progress, chunk, log
	At       time.Time
	Data     []byte          // stdout, stderr
	Chunk    json.RawMessage // chunk
	Fraction float64         // progress; negative: none given
	Level    string          // log
	Message  string          // progress, log
}

// Size is about what the event takes in memory, so that many empty ones have a bound too.
func (e *RunEvent) Size() int {
	const fixed = 160
	return fixed + len(e.Data) + len(e.Chunk) + len(e.Level) + len(e.Message)
}
