package process

import (
	"strings"

	"github.com/troupe-run/troupe/rules/mask"
)

// masked takes secrets out of what an event says. Results and chunks are the code's answer and stay as they are.
func masked(masks *mask.Set, e Event) Event {
	if masks == nil {
		return e
	}
	switch e := e.(type) {
	case Reply:
		if e.Err != nil {
			err := *e.Err
			err.Message, err.Type, err.Stderr, err.Details = masks.Text(err.Message), masks.Text(err.Type), masks.Text(err.Stderr), masks.JSON(err.Details)
			e.Err = &err
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
