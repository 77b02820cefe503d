package operate

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/operate/view"
)

// placeOf is where a worker stands in its node's listing: pool/slot.
func placeOf(w view.Worker) string {
	_, pool, slot, _ := w.ID.Split()
	return pool + "/" + strconv.Itoa(int(slot))
}

// behindPlace reports whether a worker comes behind a place in its node's listing. A place that is none comes first.
func behindPlace(w view.Worker, after string) bool {
	i := strings.LastIndexByte(after, '/')
	last, err := strconv.Atoi(after[i+1:])
	if i < 0 || err != nil {
		return true
	}
	_, pool, slot, _ := w.ID.Split()
	return pool > after[:i] || pool == after[:i] && slot > messages.Slot(last)
}

// pageOf is the page behind a place of a listing, as much as fits.
func pageOf[T any](all []T, after string, place func(T) string, behind func(T, string) bool) (wire.Body, error) {
	view, last := []byte{'['}, ""
	for _, item := range all {
		if after != "" && !behind(item, after) {
			continue
		}
		raw, err := json.Marshal(item)
		if err != nil {
			return nil, err
		}
		if len(view)+len(raw)+2 > wire.ViewsMax {
			return wire.Views{View: append(view, ']'), Next: last}, nil
		}
		if last != "" {
			view = append(view, ',')
		}
		view, last = append(view, raw...), place(item)
	}
	return wire.Views{View: append(view, ']')}, nil
}
