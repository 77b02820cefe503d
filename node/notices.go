package node

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
)

// noticesLate is the age of the oldest outcome that is not told from which /readyz speaks of it. In order it is below one second.
const noticesLate = 10 * time.Second

// noticesState is how this node sees the outbox.
type noticesState struct {
	bell   actors.NoticesBell
	report atomic.Pointer[actors.NoticesReport]
}

func (s *noticesState) take(r actors.NoticesReport) { s.report.Store(&r) }

// notes are for /readyz: outcomes are stored and answered, and those who listen on the exchange hear of them late.
func (s *noticesState) notes() []string {
	r := s.report.Load()
	if r == nil {
		return nil
	}
	if note := noticesNote(*r); note != "" {
		return []string{note}
	}
	return nil
}

func noticesNote(r actors.NoticesReport) string {
	if r.Age < noticesLate {
		return ""
	}
	count := fmt.Sprint(r.Count)
	if r.More {
		count = "more than " + count
	}
	note := fmt.Sprintf("notices: %s outcomes are not told on the executions exchange yet, the oldest for %s", count, r.Age.Round(time.Second))
	switch {
	case r.Why != "":
		return note + ": " + r.Why
	case r.Teller:
		return note + ": this node tells them"
	}
	return note + ": another node tells them, or none does that serves the exchange"
}
