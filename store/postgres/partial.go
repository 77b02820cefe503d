package postgres

import (
	"errors"

	"github.com/troupe-run/troupe/store"
)

// partialError is the failure of a call whose earlier transactions were made.
type partialError struct{ error }

func (e *partialError) Unwrap() error { return e.error }

func isPartial(err error) bool {
	var partial *partialError
	return errors.As(err, &partial)
}

// asPartial marks the failure of a call of which some changes were made.
func asPartial(err error, items []*item) error {
	made := false
	for _, it := range items {
		made = made || it.done
	}
	if !made {
		return err
	}
	return &partialError{err}
}

// unsureOf reports whether a failed call may have made some changes.
func unsureOf(err error) bool {
	var part *store.PartError
	return isPartial(err) || errors.As(err, &part) && part.Unsure
}
