package messages

import (
	"errors"
	"fmt"
	"strings"
)

// Judged is an error of a Go handler with the handler's own word on whether a repeat may help.
func Judged(err error, retriable bool) *Error {
	e := Error{Code: CodeActionError, Message: err.Error(), Type: ErrorType(err), Types: ErrorTypes(err)}
	var own *Error
	if errors.As(err, &own) {
		e = *own
	}
	e.Retriable = &retriable
	return &e
}

// ErrorType is the type of the first error of the chain that says more than that it is an error, without its star; empty: none.
func ErrorType(err error) string {
	if types := ErrorTypes(err); len(types) > 0 {
		return types[0]
	}
	return ""
}

// ErrorTypes are the types of the errors of the chain, the outermost first, that say more than that they are errors.
func ErrorTypes(err error) (types []string) {
	for e := err; e != nil && len(types) < TypesMax; e = errors.Unwrap(e) {
		if name := fmt.Sprintf("%T", e); !strings.HasPrefix(name, "*fmt.") && !strings.HasPrefix(name, "*errors.") {
			types = append(types, strings.TrimPrefix(name, "*"))
		}
	}
	return types
}
