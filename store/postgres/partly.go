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

// partly marks the failure of a call of which some changes were made.
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

// unsureOf reports whether a failed call may have made some changes.
func unsureOf(err error) bool {
	var part *store.PartError
	return isPartly(err) || errors.As(err, &part) && part.Unsure
}
