package submit

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/troupe-run/troupe/messages"
)

// Bounds of a submission's small fields.
const (
	actionRefMax  = 256      // bytes
	labelsMax     = 32       // labels of one execution
	labelMax      = 256      // bytes of a label's key or value
	maxRetriesMax = 1000     // a chain longer than this is a loop
	secondsMax    = 30 << 20 // about a year, in seconds
)

// Check judges the request by its shape alone: sizes, ranges and characters. Whether the action exists and what its
// schema says of the parameters is the node's to check. It returns nil or the first thing that is wrong, as a
// Problem that names the field.
func (r *Request) Check() *messages.Problem {
	for _, check := range []func() *messages.Problem{r.checkNames, r.checkNumbers, r.checkLabels, r.checkTrace, r.checkWebhook, r.checkParameters} {
		if p := check(); p != nil {
			return p
		}
	}
	return nil
}

func (r *Request) checkNames() *messages.Problem {
	if r.ActionRef == "" {
		return invalid("action_ref is missing; name the action to run, as in core.echo")
	}
	for _, f := range []struct {
		name, value string
		max         int
	}{
		{"action_ref", r.ActionRef, actionRefMax},
		{"session", r.Session, messages.SessionMax},
		{"idempotency_key", r.IdempotencyKey, messages.KeyMax},
	} {
		if p := CheckText(f.name, f.value, f.max); p != nil {
			return p
		}
	}
	if _, err := messages.ParseAffinity(r.Affinity); err != nil {
		return invalid("affinity: %s", err)
	}
	if r.Affinity != "" && r.Session == "" {
		return invalid("affinity is %q, but no session is given; add one or leave affinity out", r.Affinity)
	}
	return nil
}

// CheckText checks a text that a caller gives, of at most max bytes; a problem calls it name. It refuses what no store and no log could hold safely: control characters, NUL first of all.
func CheckText(name, value string, max int) *messages.Problem {
	if len(value) > max {
		return invalid("%s is %d bytes long; the limit is %d", name, len(value), max)
	}
	if i := strings.IndexFunc(value, control); i >= 0 {
		return invalid("%s holds the control character %U at byte %d; leave it out", name, []rune(value[i:])[0], i)
	}
	if !utf8.ValidString(value) {
		return invalid("%s is not UTF-8", name)
	}
	return nil
}

func control(c rune) bool { return c < 0x20 || c == 0x7f }

func (r *Request) checkNumbers() *messages.Problem {
	if r.Priority != nil && (*r.Priority < int(messages.PriorityMin) || *r.Priority > int(messages.PriorityMax)) {
		return invalid("priority must be %d to %d, got %d", messages.PriorityMin, messages.PriorityMax, *r.Priority)
	}
	if r.MaxRetries != nil && (*r.MaxRetries < 0 || *r.MaxRetries > maxRetriesMax) {
		return invalid("max_retries must be 0 to %d, got %d", maxRetriesMax, *r.MaxRetries)
	}
	if p := checkSeconds("timeout_seconds", r.TimeoutSeconds); p != nil {
		return p
	}
	if year := r.RunAt.Year(); !r.RunAt.IsZero() && (year < 2000 || year > 2200) {
		return invalid("run_at is in the year %d; want a moment between 2000 and 2200", year)
	}
	return checkSeconds("queue_deadline_seconds", r.QueueDeadline)
}

func checkSeconds(name string, v *float64) *messages.Problem {
	if v == nil || (*v > 0 && *v <= secondsMax && !math.IsNaN(*v)) {
		return nil
	}
	return invalid("%s must be more than 0 and at most %d, got %v", name, secondsMax, *v)
}

func (r *Request) checkLabels() *messages.Problem {
	if len(r.Labels) > labelsMax {
		return invalid("labels: %d given; the limit is %d", len(r.Labels), labelsMax)
	}
	for key, value := range r.Labels {
		if key == "" {
			return invalid("labels: a label without a name; give it one")
		}
		if p := CheckText("labels: a label's name", key, labelMax); p != nil {
			return p
		}
		if p := CheckText(fmt.Sprintf("labels: %s", clip(key)), value, labelMax); p != nil {
			return p
		}
	}
	return nil
}

func (r *Request) checkParameters() *messages.Problem {
	if len(r.Parameters) > messages.ParametersMax {
		p := messages.Problemf(messages.CodeTooLarge,
			"parameters are %d bytes; the limit is %d. Put large data where the action can fetch it and pass its address",
			len(r.Parameters), messages.ParametersMax)
		p.Details = map[string]any{"limit_bytes": messages.ParametersMax}
		return p
	}
	text := bytes.TrimLeft(r.Parameters, " \t\r\n")
	if len(text) > 0 && text[0] != '{' && !bytes.Equal(bytes.TrimSpace(text), []byte("null")) {
		return invalid("parameters must be a JSON object")
	}
	if len(r.Parameters) > 0 {
		if p := messages.CheckJSON(r.Parameters); p != nil {
			return InvalidJSON(p.Under("parameters"), "parameters")
		}
	}
	return nil
}

// InvalidJSON is what a caller is told of a text of its own, called what, that is no JSON as Troupe stores it.
func InvalidJSON(p *messages.JSONProblem, what string) *messages.Problem {
	problem := messages.Problemf(messages.CodeInvalidJSON, "%s", p.Of(what))
	if p.Path != "" {
		problem.Details = map[string]any{"path": p.Path}
	}
	return problem
}

func invalid(format string, args ...any) *messages.Problem {
	return messages.Problemf(messages.CodeInvalidRequest, format, args...)
}

// clip bounds a foreign text that goes into a message.
func clip(s string) string {
	const limit = 128
	if len(s) > limit {
		return s[:limit] + "…"
	}
	return s
}
