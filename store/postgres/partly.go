package postgres

import (
	"errors"

	"github.com/troupe-run/troupe/store"
)

// partlyError is the failure of a call whose earlier transactions were made.
type partlyError struct{ error }

func (e *partlyError) Unwrap() error { return e.error }

func isPartly(err error) bool {
	var partly *partlyError
	return errors.As(err, &partly)
}

// partly marks the failure of a call of which something was made.
func partly(err error, items []*item) error {
	made := false
	for _, it := range items {
		made = made || it.done
	}
	if !made {
		return err
	}
	return &partlyError{err}
}

// unsureOf reports whether something of a call that failed so may have been made.
func unsureOf(err error) bool {
	var part *store.PartError
	return isPartly(err) || errors.As(err, &part) && part.Unsure
}
