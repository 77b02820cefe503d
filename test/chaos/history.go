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
	Calls       []Call               // the callers' log, in the order in which it was written
	Executions  []Stored             // all executions in the store after the run
	Effects     []Effect             // the side-effect log, in the order of the writes
	DeadLetters []messages.Placement // one for each time that the broker dead-lettered a message
	// Sparse: the store has no events for the usual steps, which is the default.
	Sparse bool
}

// Filled returns the history with the events of the usual steps, which a sparse history lacks.
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

// CallState says what the caller knows of a call.
type CallState string

// The states of a call: invoked, answered, or unknown. An unknown call may have had its effect.
const (
	Invoked CallState = "invoke"
	OK      CallState = "ok"
	Unknown CallState = "unknown"
)

// Call is one line of a caller's log. An answered call has two lines.
type Call struct {
	Op    string // submit, cancel
	State CallState
	Key   string               // a submit's idempotency key
	ID    messages.ExecutionID // the execution of an answered submit, or of a cancel
	Want  []messages.Status    // a submit's possible outcomes, with all faults of the suite
	Codes []messages.Code      // a submit's possible error codes; none: any
	Found messages.Status      // an answered cancel's status
}

// Stored is an execution as the store has it.
type Stored struct {
	ID         messages.ExecutionID
	Key        string
	Action     string
	Session    string
	Status     messages.Status
	Attempt    messages.Attempt
	Worker     string    // the worker of the last placement
	Requested  time.Time // by the store's clock
	Scheduled  time.Time // the time of the last placement, by the store's clock
	Idempotent bool
	Original   messages.ExecutionID
	RetriedAs  messages.ExecutionID
	RetryCount int
	Code       messages.Code // the error's code
	Result     json.RawMessage
	Events     []store.Event
	// Traced: its action writes to the side-effect log and returns its execution and attempt.
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
	Count     int  // the session's counter after this execution
	Lost      bool // the execution was informed that the session's state was lost
	// At is the time of the effect by the monotonic clock that all processes of the machine share. It is read before the line is
	// written. It is 0 if the writer has no such clock.
	At time.Duration
}

// effectFields is the number of words in a line of the side-effect log.
const effectFields = 9

// ParseEffects reads a side-effect log. Each line is an effect of nine words: kind, execution, attempt, pid, session or -, epoch,
// count, 1 if a loss was reported, and the time in nanoseconds. An error names the line. A last line without a newline is
// complete, because each line is written by one call. If a writer is killed during its write, its line may end at the end of a
// page of the file, and another writer's line follows directly. Such a partial line is left out, because its effect had not
// happened.
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

// pageSize is the smallest piece in which the kernel writes a file. A kill takes effect between two pieces.
const pageSize = 4096

// untorn returns the complete line that follows the partial line of a killed writer. offset is the start of text in the file.
func untorn(text string, offset int) string {
	end := pageSize - offset%pageSize // where the page ends in text
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
