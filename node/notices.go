package node

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
)

// noticesLate is the age of the oldest outcome that is not told from which /readyz speaks of it. In order it is below one second.
const noticesLate = 10 * time.Second

const noticesPath = "troupe/bridges/notices"

// notices tell of outcomes on the executions exchange, and know how late that is.
type notices struct {
	*base
	bell   actors.NoticesBell
	report atomic.Pointer[actors.NoticesReport] // of the bridge, by its last look at the outbox
}

// tells reports whether outcomes are told on the executions exchange. With the embedded broker nobody outside could
// listen, so it must be asked for there.
func (c *Config) tells() bool {
	return !c.NoticesOff && (c.server() || c.Notices)
}

// spec is the bridge. Count is told what became of how many notices.
func (t *notices) spec(count func(result string, n int)) actors.Child {
	return actors.NewNotices(actors.NoticesConfig{
		System: t.system, Store: t.store, Broker: t.broker, Settings: t.cfg.Broker, Incarnation: t.incarnation, Bell: &t.bell,
		Logger: t.logger.Named("notices"), Count: count, Report: t.take,
	})
}

// hook is what the recorder does after a transaction with notices; nil where none are told.
func (t *notices) hook() func() {
	if !t.cfg.tells() {
		return nil
	}
	return t.ring
}

// ring says that there may be something to tell. It does nothing on a node whose bridge does not tell.
func (t *notices) ring() { t.bell.Ring(t.system, t.system.PID(noticesPath)) }

func (t *notices) take(r actors.NoticesReport) { t.report.Store(&r) }

// notes are for /readyz: outcomes are stored and answered, and those who listen on the exchange hear of them late.
func (t *notices) notes() []string {
	r := t.report.Load()
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
