package chaos

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// History is the record of one run.
type History struct {
	Calls       []Call               // the callers' own log, in the order of writing
	Executions  []Stored             // all executions in the store, after the end
	Effects     []Effect             // the side-effect log, in the order of the file, which is the order of the writes
	DeadLetters []messages.Placement // the messages that the broker dead-lettered, one for each time
	// Sparse: the store kept no events for the steps of the straight path, as it does by default.
	Sparse bool
}

// Filled returns the history with the events of the straight path, which a sparse one lacks.
func (h *History) Filled() *History {
	if !h.Sparse {
		return h
	}
	whole := *h
	whole.Sparse, whole.Executions = false, make([]Stored, len(h.Executions))
	for i := range h.Executions {
		whole.Executions[i] = withImplied(h.Executions[i])
	}
	return &whole
}

// CallState is the state of a call as its caller knows it.
type CallState string

// The states of a call: invoked, answered, or unknown. An unknown call may have had its effect.
const (
	Invoked CallState = "invoke"
	OK      CallState = "ok"
	Unknown CallState = "unknown"
)

// Call is one line of a caller's log. A call that was answered has two lines.
type Call struct {
	Op    string // submit, cancel
	State CallState
	Key   string               // the idempotency key of a submit
	ID    messages.ExecutionID // of an answered submit, and of a cancel
	Want  []messages.Status    // of a submit: the outcomes that this work can have, whatever is killed
	Codes []messages.Code      // of a submit: with these error codes alone; none: any
	Found messages.Status      // of an answered cancel: the status it was answered with
}

// Stored is an execution as it is in the store.
type Stored struct {
	ID         messages.ExecutionID
	Key        string
	Action     string
	Session    string
	Status     messages.Status
	Attempt    messages.Attempt
	Worker     string    // of the last placement
	Requested  time.Time // by the store's clock
	Scheduled  time.Time // when it was last placed, by the store's clock
	Idempotent bool
	Original   messages.ExecutionID
	RetriedAs  messages.ExecutionID
	RetryCount int
	Code       messages.Code // of its error
	Result     json.RawMessage
	Events     []store.Event
	// Traced: its action writes to the side-effect log and returns which attempt it was.
	Traced bool
}

// Effect is one line of the side-effect log.
type Effect struct {
	Kind      string // start, tick, end
	Execution messages.ExecutionID
	Attempt   messages.Attempt
	Pid       int
	Session   string // empty: none
	Epoch     int64
	Count     int  // the session's own counter, as of this execution
	Lost      bool // the execution was told that the session's state was lost
	// At is when it was done, by the monotonic clock that all processes of the machine share, taken before the line was
	// written; 0: its writer has no such clock.
	At time.Duration
}

// effectFields is the number of words in a line of the side-effect log.
const effectFields = 9

// ParseEffects reads a side-effect log. Each line is an effect of nine words: kind, execution, attempt, pid, session or
// -, epoch, count, 1 if a loss was told, and the time in nanoseconds. An error names the line. A last line without a
// newline is complete, because each line is written by one call. If a writer is killed during its write, the line may
// end at the end of a page of the file, and another writer's line follows directly. Such a part is omitted, because its
// effect had not happened.
func ParseEffects(r io.Reader) ([]Effect, error) {
	var effects []Effect
	lines := bufio.NewScanner(r)
	for n, offset := 1, 0; lines.Scan(); n++ {
		text := lines.Text()
		e, err := parseEffect(untorn(text, offset))
		if err != nil {
			return nil, fmt.Errorf("side-effect log, line %d, at byte %d: %w", n, offset, err)
		}
		effects = append(effects, e)
		offset += len(text) + 1
	}
	return effects, lines.Err()
}

// pageSize is the least of the pieces that the kernel writes a file in. A kill takes effect between two of them.
const pageSize = 4096

// untorn is the line behind what a killed writer has left of its own, where the line begins at the offset of the file.
func untorn(text string, offset int) string {
	end := pageSize - offset%pageSize // of the page, within the line
	if end >= len(text) {
		return text
	}
	for _, kind := range []string{"start", "tick", "end"} {
		if strings.HasPrefix(text[end:], kind+" ") {
			return text[end:]
		}
	}
	return text
}

func parseEffect(line string) (Effect, error) {
	words := strings.Fields(line)
	if len(words) != effectFields {
		return Effect{}, fmt.Errorf("%q has %d words, want %d", line, len(words), effectFields)
	}
	id, err := messages.ParseExecutionID(words[1])
	if err != nil {
		return Effect{}, err
	}
	e := Effect{Kind: words[0], Execution: id, Session: strings.TrimPrefix(words[4], "-"), Lost: words[7] == "1"}
	numbers := [5]int64{}
	for i, at := range []int{2, 3, 5, 6, 8} {
		if numbers[i], err = strconv.ParseInt(words[at], 10, 64); err != nil {
			return Effect{}, fmt.Errorf("word %d: %w", at+1, err)
		}
	}
	e.Attempt, e.Pid, e.Epoch, e.Count = messages.Attempt(numbers[0]), int(numbers[1]), numbers[2], int(numbers[3])
	e.At = time.Duration(numbers[4])
	switch e.Kind {
	case "start", "tick", "end":
		return e, nil
	}
	return Effect{}, fmt.Errorf("kind %q: want start, tick or end", e.Kind)
}

func (e Effect) String() string {
	text := fmt.Sprintf("effect %s attempt %d pid %d", e.Kind, e.Attempt, e.Pid)
	if e.Session != "" {
		text += fmt.Sprintf(" session %s epoch %d count %d lost %t", e.Session, e.Epoch, e.Count, e.Lost)
	}
	return text
}
