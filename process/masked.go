package process

import (
	"slices"
	"strings"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/mask"
)

// bounded returns an event whose error has no text that is too long. It comes after masked: a secret that was cut would not be found.
func bounded(e Event) Event {
	switch e := e.(type) {
	case Reply:
		if e.Err != nil {
			e.Err = e.Err.Bounded()
		}
		return e
	case Fault:
		e.Err = e.Err.Bounded()
		return e
	}
	return e
}

// masked replaces secrets in an event's texts. It does not change results and chunks, which are the action's answer.
func masked(masks *mask.Set, e Event) Event {
	if masks == nil {
		return e
	}
	switch e := e.(type) {
	case Reply:
		if e.Err != nil {
			e.Err = MaskedError(masks, e.Err)
		}
		return e
	case Fault:
		e.Err = MaskedError(masks, e.Err)
		return e
	case Chunk:
		if e.Err != nil {
			e.Err = MaskedError(masks, e.Err)
		}
		return e
	case Progress:
		e.Message = masks.Text(e.Message)
		return e
	case Log:
		e.Message = masks.Text(e.Message)
		return e
	case Broken:
		if reason, clipped := strings.CutSuffix(e.Reason, clipMark); clipped {
			e.Reason = masks.Cut(reason) + clipMark
			return e
		}
		e.Reason = masks.Text(e.Reason)
		return e
	}
	return e
}

// MaskedError returns the error without the secrets: itself, or a copy.
func MaskedError(masks *mask.Set, e *messages.Error) *messages.Error {
	if masks == nil {
		return e
	}
	err := *e
	err.Code = messages.Code(masks.Text(string(err.Code)))
	err.Message, err.Type, err.Stderr, err.Details = masks.Text(err.Message), masks.Text(err.Type), masks.Text(err.Stderr), masks.JSON(err.Details)
	err.Types = slices.Clone(err.Types)
	for i, name := range err.Types {
		err.Types[i] = masks.Text(name)
	}
	return &err
}
