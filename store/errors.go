package store

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/troupe-run/troupe/messages"
)

// ErrorListed bounds the bytes of a stored error that lists read. A message of messages.ListedMessageMax bytes, each of which JSON may write
// with six, has room there behind the short fields.
const ErrorListed = 32 << 10

// storedError is a messages.Error as it is stored: the short fields first, so that its beginning tells what a list shows. The code is the
// first field of each stored error, see ErrorBegins.
type storedError struct {
	Code        messages.Code   `json:"code"`
	Class       string          `json:"class,omitempty"`
	Type        string          `json:"type,omitempty"`
	NoRetry     string          `json:"no_retry,omitempty"`
	Retriable   *bool           `json:"retriable,omitempty"`
	WorkerFault bool            `json:"worker_fault,omitempty"`
	FailedBy    string          `json:"failed_by,omitempty"`
	Exit        string          `json:"exit,omitempty"`
	Message     string          `json:"message"`
	Details     json.RawMessage `json:"details,omitempty"`
	Stderr      string          `json:"stderr,omitempty"`
}

// DecodeError reads an error that EncodeError wrote, or its first ErrorListed bytes; nil for no bytes. Bytes that are not JSON become an error
// that quotes them.
func DecodeError(b []byte) *messages.Error {
	if len(b) == 0 {
		return nil
	}
	e := &messages.Error{}
	err := json.Unmarshal(b, e)
	if err == nil {
		return e
	}
	if len(b) == ErrorListed {
		if e = decodeBeginning(b); e != nil {
			return e
		}
	}
	return &messages.Error{Code: messages.CodeActionError, Message: "stored error cannot be read: " + string(b)}
}

// decodeBeginning reads the beginning of a stored error, without its details; nil: it is none. The text that it ends in has its own beginning.
func decodeBeginning(b []byte) *messages.Error {
	dec := json.NewDecoder(bytes.NewReader(b))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil
	}
	fields := map[string]json.RawMessage{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			break
		}
		name, _ := key.(string) // a key is one
		from := dec.InputOffset()
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			value = closedText(bytes.TrimPrefix(b[from:], []byte(":")))
		}
		if fields[name] = value; value == nil {
			break
		}
	}
	delete(fields, "details")
	whole, err := json.Marshal(fields)
	e := &messages.Error{}
	if _, found := fields["code"]; !found || err != nil || json.Unmarshal(whole, e) != nil {
		return nil
	}
	return e
}

// closedText makes a text of JSON of its beginning; nil: it is of no text.
func closedText(b []byte) json.RawMessage {
	if len(b) == 0 || b[0] != '"' {
		return nil
	}
	b = bytes.ToValidUTF8(b, nil)
	const escapeMax = 6 // bytes of a character, as \u003c
	for cut := range min(escapeMax, len(b)) {
		if text := append(bytes.Clone(b[:len(b)-cut]), '"'); json.Valid(text) {
			return text
		}
	}
	return nil
}

// EncodeError returns the JSON of an error for adapters to store; nil for nil. Details that are not JSON are stored as
// a JSON text. Bytes that are not UTF-8 become the replacement character, so that an error which is read and written
// again does not change.
func EncodeError(e *messages.Error) []byte {
	if e == nil {
		return nil
	}
	kept := storedError{
		Code: e.Code, Class: e.Class, Type: e.Type, NoRetry: e.NoRetry, Retriable: e.Retriable, WorkerFault: e.WorkerFault,
		FailedBy: e.FailedBy, Exit: e.Exit, Message: e.Message, Details: e.Details, Stderr: e.Stderr,
	}
	for _, s := range []*string{(*string)(&kept.Code), &kept.Message, &kept.FailedBy, &kept.Stderr, &kept.Exit, &kept.Class, &kept.Type, &kept.NoRetry} {
		*s = strings.ToValidUTF8(*s, "\uFFFD")
	}
	if len(kept.Details) > 0 && !json.Valid(kept.Details) {
		kept.Details, _ = json.Marshal(strings.ToValidUTF8(string(kept.Details), "\uFFFD"))
	}
	b, err := json.Marshal(&kept)
	if err != nil {
		b, _ = json.Marshal(&storedError{Code: kept.Code, Message: kept.Message})
	}
	return b
}
