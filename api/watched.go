package api

import (
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// watchEvery is the time between two checks of a watched file.
const watchEvery = time.Second

// watched holds files that are read again when they have changed. Only one goroutine may use it at a time.
type watched struct {
	paths []string
	next  time.Time
	seen  []stamp
}

// stamp identifies a file and its content. Its zero value means a file that cannot be read.
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

// due reports whether it is time for a check.
func (w *watched) due(now time.Time) bool { return !now.Before(w.next) }

// look records the stamps of the files, and reports whether one has changed since the last look.
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

// lookWait is how long a caller waits for another one that checks the files, for example while their file system hangs.
// After it the old content is used, as for a file that cannot be read.
const lookWait = 2 * time.Second

// turns lets one caller at a time check the watched files. When a check is due, other callers wait for it, so that a
// removed entry is not accepted while another caller reads the files.
type turns struct {
	taken chan struct{} // has one entry during a check
	next  atomic.Int64  // time of the next check, in nanoseconds of Unix time
	wait  time.Duration
}

func newTurns() turns { return turns{taken: make(chan struct{}, 1), wait: lookWait} }

// due takes the turn if a check is due, and reports whether it did. It waits for another caller that has the turn.
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

// take takes the turn at any time.
func (t *turns) take() { t.taken <- struct{}{} }

// give gives the turn back and sets the time of the next check.
func (t *turns) give(w *watched) {
	t.next.Store(w.next.UnixNano())
	<-t.taken
}

// reread is what was read from files. It is read again when they have changed; what cannot be taken leaves what was there.
type reread[T any] struct {
	source func() (*T, error)
	now    func() time.Time

	current atomic.Pointer[T]
	turns   turns // guard what follows
	watch   watched
	failed  string // why the files were not taken the last time
}

// newReread reads nothing before the first Reload.
func newReread[T any](paths []string, source func() (*T, error)) reread[T] {
	return reread[T]{source: source, now: time.Now, turns: newTurns(), watch: watched{paths: paths}}
}

// Reload reads the files. After an error what was read before holds.
func (r *reread[T]) Reload() error {
	r.turns.take()
	defer r.turns.give(&r.watch)
	r.watch.look(r.now())
	return r.readNow()
}

// readNow reads the files. An error is kept, so that they are read again though they do not change: their mode may.
func (r *reread[T]) readNow() error {
	read, err := r.source()
	if err != nil {
		r.failed = err.Error()
		return err
	}
	r.current.Store(read)
	r.failed = ""
	return nil
}

// refresh reads the files again where it is time to look and they have changed, or could not be taken before. It reports whether they
// were taken, and why not where that is news.
func (r *reread[T]) refresh() (taken bool, news error) {
	now := r.now()
	if !r.turns.due(now) {
		return false, nil
	}
	defer r.turns.give(&r.watch)
	if !r.watch.due(now) || (!r.watch.look(now) && r.failed == "") {
		return false, nil
	}
	before := r.failed
	if err := r.readNow(); err != nil {
		if r.failed == before {
			return false, nil
		}
		return false, err
	}
	return true, nil
}
