package api

import (
	"os"
	"slices"
	"sync/atomic"
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

// lookWait is how long a caller waits for another one that looks at the files, as where their file system hangs. Then what was read
// before holds, as of a file that cannot be read.
const lookWait = 2 * time.Second

// turns lets one caller at a time look at watched files, and has the others wait for it once the knowledge of them is too old: what the
// files hold no more does not pass because somebody else is reading them.
type turns struct {
	taken chan struct{} // holds one while somebody looks
	next  atomic.Int64  // when it is time for the next look, in nanoseconds of Unix time
	wait  time.Duration
}

func newTurns() turns { return turns{taken: make(chan struct{}, 1), wait: lookWait} }

// due takes the turn where it is time for a look, and reports whether it has. It waits for whoever has the turn.
func (t *turns) due(now time.Time) bool {
	if now.UnixNano() < t.next.Load() {
		return false
	}
	select {
	case t.taken <- struct{}{}:
		return true
	default:
	}
	limit := time.NewTimer(t.wait)
	defer limit.Stop()
	select {
	case t.taken <- struct{}{}:
		return true
	case <-limit.C:
		return false
	}
}

// take takes the turn, whatever the time.
func (t *turns) take() { t.taken <- struct{}{} }

// give gives the turn back, until the next look is due.
func (t *turns) give(w *watched) {
	t.next.Store(w.next.UnixNano())
	<-t.taken
}
