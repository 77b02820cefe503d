package messages

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of what an action's code may say of its error, in bytes.
const (
	CodeMax         = 128
	TypeMax         = 128 // of the name of an exception's type
	TypesMax        = 16  // names of types that an exception derives from
	ErrorMessageMax = 64 << 10
	ErrorDetailsMax = ResultMax
	errorStderrMax  = 16 << 10
	errorWordMax    = 1 << 10 // of each of the other texts
)

// cutMark is the end of a text that was cut.
const cutMark = "…"

// ListedMessageMax bounds an error's message in lists, in bytes.
const ListedMessageMax = 4 << 10

// ClipText returns the beginning of a text, up to limit bytes with the mark of a cut. It is UTF-8.
func ClipText(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	return cutText(text, limit-len(cutMark)) + cutMark
}

// cutText returns up to limit bytes of a valid text, without half a character.
func cutText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// Bounded returns the error within the bounds of its texts and details: itself, or a copy. Code, type and message keep their beginning, and
// stderr its end. Details that are too long are replaced by how long they were.
func (e *Error) Bounded() *Error {
	if e == nil {
		return nil
	}
	short := *e
	short.Code = Code(cutText(strings.ToValidUTF8(string(e.Code), "\uFFFD"), CodeMax))
	short.Type = cutText(strings.ToValidUTF8(e.Type, "\uFFFD"), TypeMax)
	short.Message = ClipText(e.Message, ErrorMessageMax)
	short.Types = e.Types[:min(len(e.Types), TypesMax)]
	if slices.ContainsFunc(short.Types, func(name string) bool { return len(name) > TypeMax }) {
		short.Types = slices.DeleteFunc(slices.Clone(short.Types), func(name string) bool { return len(name) > TypeMax })
	}
	for _, word := range []*string{&short.Class, &short.NoRetry, &short.FailedBy, &short.Exit} {
		*word = ClipText(*word, errorWordMax)
	}
	if n := len(e.Stderr) - errorStderrMax; n > 0 {
		short.Stderr = strings.ToValidUTF8(e.Stderr[n:], "")
	}
	if n := len(e.Details); n > ErrorDetailsMax {
		short.Details, _ = json.Marshal(fmt.Sprintf("left out: the details have %d bytes, more than the %d that can be stored", n, ErrorDetailsMax)) // a text always encodes
	}
	if short.Code == e.Code && short.Type == e.Type && short.Message == e.Message && short.Class == e.Class && short.NoRetry == e.NoRetry &&
		short.FailedBy == e.FailedBy && short.Exit == e.Exit && short.Stderr == e.Stderr && len(short.Details) == len(e.Details) && len(short.Types) == len(e.Types) {
		return e
	}
	return &short
}

// Detailed returns the error with its details where they are JSON, and with what is wrong with them where they are not: the same error, or a
// copy.
func (e *Error) Detailed() *Error {
	if len(e.Details) == 0 {
		return e
	}
	p := CheckJSON(e.Details)
	if p == nil {
		return e
	}
	told := *e
	told.Details, _ = json.Marshal("left out: the details are not JSON: " + p.Of("the text")) // a text always encodes
	return &told
}

// NotJSON is the error of a run whose result, or another value of it that is called what, is no JSON that can be stored: by an error of
// CheckJSON or EncodeJSON.
func NotJSON(what string, err error) *Error {
	why := err.Error()
	if p := (*JSONProblem)(nil); errors.As(err, &p) {
		why = p.Of("the text")
	}
	return &Error{Code: CodeResultNotJSON, Message: "the " + what + " is not JSON: " + why, Retriable: new(bool)}
}

// Listed returns a copy of the error for lists: without its details, which may be a result that came too late, and without stderr, and with a
// message of up to limit bytes.
func (e *Error) Listed(limit int) *Error {
	short := *e.Bounded()
	short.Details, short.Stderr, short.Message = nil, "", ClipText(e.Message, limit)
	return &short
}
