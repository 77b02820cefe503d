package node

import (
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-run/troupe/rules/throttle"
)

// shortFor is how long /readyz speaks of a shortage after a start last failed for it: with nothing to start nobody tries.
const shortFor = time.Minute

// shortages knows of the programs that the node did not start for want of descriptors, memory or processes.
type shortages struct {
	logger hclog.Logger
	count  *prometheus.CounterVec

	mu     sync.Mutex
	gate   throttle.Gate
	since  time.Time // when the shortage that lasts began
	last   time.Time // when a start last failed; zero: none has
	starts int       // that failed since then
	reason string
}

func newShortages(logger hclog.Logger, count *prometheus.CounterVec) *shortages {
	return &shortages{logger: logger, count: count}
}

// note takes a start that failed so, or a probe that found that it would. Any goroutine may call it.
func (s *shortages) note(pool string, err error) { s.noteAt(pool, err, time.Now()) }

func (s *shortages) noteAt(pool string, err error, now time.Time) {
	s.count.WithLabelValues(pool).Inc()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.IsZero() || now.Sub(s.last) >= shortFor {
		s.since, s.starts = now, 0
	}
	s.last, s.reason = now, err.Error()
	s.starts++
	if pass, withheld := s.gate.Pass(now); pass {
		s.logger.Warn("program not started for a lack of the node; its run waits and is started later",
			append([]any{"pool", pool, "error", err}, throttle.LeftOut(withheld)...)...)
	}
}

// notes are for /readyz, and so for doctor.
func (s *shortages) notes(now time.Time) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.IsZero() || now.Sub(s.last) >= shortFor {
		return nil
	}
	return []string{fmt.Sprintf("workers: %d starts of programs failed since %s for a lack of the node, and wait: %s; raise its limits of open "+
		"files, tasks and memory, or lower its workers", s.starts, s.since.UTC().Format(time.RFC3339), s.reason)}
}
