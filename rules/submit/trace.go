package submit

import (
	"slices"
	"strings"

	"github.com/troupe-run/troupe/messages"
)

// Lengths of W3C trace context, in bytes.
const (
	parentLen     = 55  // of a traceparent of version 00
	parentMax     = 512 // of a traceparent of a newer version
	stateMax      = 512 // of a tracestate: what the standard wants carried at least
	stateMembers  = 32  // of a tracestate
	stateKeyMax   = 256
	stateValueMax = 256
)

// traceFlags are the flags that version 00 knows: sampled, and random trace id. The standard wants the others cleared.
const traceFlags = 3

// Trace is the trace context that a caller sends, as an Execution's Trace: the traceparent, and after a blank the tracestate. It is
// empty where the traceparent is not valid, and has no tracestate where that is not: the standard says that neither may fail a request.
func Trace(parent, state string) string {
	parent = traceparent(parent)
	if parent == "" || state == "" {
		return parent
	}
	if state = tracestate(state); state == "" {
		return parent
	}
	return parent + " " + state
}

// ParseTrace is Trace of one text.
func ParseTrace(text string) string {
	if text == "" {
		return ""
	}
	parent, state, _ := strings.Cut(text, " ")
	return Trace(parent, state)
}

// traceparent is text as a traceparent of version 00; empty: it is none. One of a newer version may go on behind its flags.
func traceparent(text string) string {
	if len(text) < parentLen || len(text) > parentMax || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return ""
	}
	version, trace, span, flags := text[:2], text[3:35], text[36:52], text[53:parentLen]
	switch {
	case !hexLower(version) || version == "ff" || !hexLower(trace) || !hexLower(span) || !hexLower(flags):
		return ""
	case zeros(trace) || zeros(span):
		return ""
	case len(text) > parentLen && (version == "00" || text[parentLen] != '-'):
		return ""
	}
	known := "0" + string('0'+hexDigit(flags[1])&traceFlags)
	if version == "00" && flags == known {
		return text
	}
	return "00-" + trace + "-" + span + "-" + known
}

// tracestate is text with its members apart by commas alone; empty: it is no tracestate, or has no members.
func tracestate(text string) string {
	if len(text) > stateMax {
		return ""
	}
	var members, keys []string
	for member := range strings.SplitSeq(text, ",") {
		if member = strings.Trim(member, " \t"); member == "" {
			continue // the standard allows it
		}
		key, value, ok := strings.Cut(member, "=")
		if !ok || !stateKey(key) || !stateValue(value) || slices.Contains(keys, key) || len(keys) == stateMembers {
			return ""
		}
		members, keys = append(members, member), append(keys, key)
	}
	return strings.Join(members, ",")
}

// stateKey reports whether s is a key: a name, or a tenant and a system with @ between them.
func stateKey(s string) bool {
	if len(s) == 0 || len(s) > stateKeyMax || !lowerOrDigit(s[0]) {
		return false
	}
	at := 0
	for i := range len(s) {
		switch c := s[i]; {
		case lowerOrDigit(c), c == '_', c == '-', c == '*', c == '/':
		case c == '@' && i < len(s)-1:
			at++
		default:
			return false
		}
	}
	return at <= 1
}

// stateValue reports whether s is a value: printable, without commas and equals signs, and no blank at its end.
func stateValue(s string) bool {
	if len(s) == 0 || len(s) > stateValueMax || s[len(s)-1] == ' ' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == ',' || c == '=' {
			return false
		}
	}
	return true
}

// checkTrace refuses a trace that a caller wrote into the submission by hand and that is none. A header's is passed over.
func (r *Request) checkTrace() *messages.Problem {
	if r.Trace != "" && ParseTrace(r.Trace) == "" {
		return invalid("trace must be a W3C traceparent, such as 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01, and may have a "+
			"tracestate after a blank; got %q", clip(r.Trace))
	}
	return nil
}

func hexLower(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// hexDigit is the value of a digit that hexLower has passed.
func hexDigit(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}

func lowerOrDigit(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' }

func zeros(s string) bool { return strings.Trim(s, "0") == "" }
