package store

import (
	"encoding/json"
	"strings"

	"github.com/troupe-run/troupe/messages"
)

// DecodeError reads an error that EncodeError wrote; nil for no bytes. Bytes that are not JSON become an error that
// says so and has them as text.
func DecodeError(b []byte) *messages.Error {
	if len(b) == 0 {
		return nil
	}
	e := &messages.Error{}
	if err := json.Unmarshal(b, e); err != nil {
		return &messages.Error{Code: messages.CodeActionError, Message: "stored error cannot be read: " + string(b)}
	}
	return e
}

// EncodeError returns the JSON of an error for adapters to store; nil for nil. Details that are not JSON are stored as
// a JSON text. Bytes that are not UTF-8 become the replacement character, so that an error which is read and written
// again does not change.
func EncodeError(e *messages.Error) []byte {
	if e == nil {
		return nil
	}
	kept := *e
	for _, s := range []*string{(*string)(&kept.Code), &kept.Message, &kept.FailedBy, &kept.Stderr, &kept.Exit, &kept.Class, &kept.Type, &kept.NoRetry} {
		*s = strings.ToValidUTF8(*s, "\uFFFD")
	}
	if len(kept.Details) > 0 && !json.Valid(kept.Details) {
		kept.Details, _ = json.Marshal(strings.ToValidUTF8(string(kept.Details), "\uFFFD"))
	}
	b, err := json.Marshal(&kept)
	if err != nil {
		b, _ = json.Marshal(&messages.Error{Code: kept.Code, Message: kept.Message})
	}
	return b
}
