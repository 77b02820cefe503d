package api

import (
	"os"
	"slices"
	"time"
)

// watchEvery is how old the knowledge of a watched file may be.
const watchEvery = time.Second

// watched are files that are read again when they have changed. It is not safe for use by several goroutines.
type watched struct {
	paths []string
	next  time.Time
	seen  []stamp
}

// stamp is how a file shows that it is another one, or has another content. Its zero value is that of a file that cannot be seen.
type stamp struct {
	size  int64
	mtime int64
	info  os.FileInfo
}

func (s stamp) same(o stamp) bool {
	if s.info == nil || o.info == nil {
		return s.info == nil && o.info == nil
	}
	return s.size == o.size && s.mtime == o.mtime && os.SameFile(s.info, o.info)
}

// due reports whether it is time to look.
func (w *watched) due(now time.Time) bool { return !now.Before(w.next) }

// look notes how the files stand, and reports whether that is otherwise than at the last look.
func (w *watched) look(now time.Time) (changed bool) {
	w.next = now.Add(watchEvery)
	stamps := make([]stamp, len(w.paths))
	for i, path := range w.paths {
		if info, err := os.Stat(path); err == nil {
			stamps[i] = stamp{info.Size(), info.ModTime().UnixNano(), info}
		}
	}
	changed = !slices.EqualFunc(stamps, w.seen, stamp.same)
	w.seen = stamps
	return changed
}
