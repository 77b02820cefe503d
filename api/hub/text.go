package hub

import (
	"bytes"
	"context"

	"github.com/troupe-run/troupe/rules/live"
)

// OfText makes what reads a topic of what reads its answer as JSON. Lists names the fields whose elements are entries of their own. Where the
// answer is the same as the one before, so are the entries.
func OfText(lists live.Lists, read func(context.Context) ([]byte, error)) func(context.Context) ([]live.Entry, error) {
	var before []byte // only one reading is under way at a time
	var entries []live.Entry
	return func(ctx context.Context) ([]live.Entry, error) {
		answer, err := read(ctx)
		if err != nil {
			return nil, err
		}
		if before == nil || !bytes.Equal(answer, before) {
			split, err := live.Split(answer, lists)
			if err != nil {
				return nil, err
			}
			before, entries = answer, split
		}
		return entries, nil
	}
}
