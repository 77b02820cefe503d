package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/throttle"
	"github.com/troupe-run/troupe/store"
)

// How often the node looks at its servers: at what the broker's adapter says of itself, which costs nothing, and, while
// the store is in doubt, at the store; pingTime bounds one such question. While a server is away the log repeats it.
const (
	lookEvery   = 50 * time.Millisecond
	pingEvery   = 250 * time.Millisecond
	pingTime    = 2 * time.Second
	slowCall    = 2 * time.Second // a call of the store's that lasts so long makes it doubtful
	repeatEvery = time.Minute
)

// condition is how one server stands.
type condition struct {
	known   bool // it has been up once
	up      bool
	blocked bool   // of the broker: it takes no messages
	reason  string // why it is not up, or blocked
	since   time.Time
}

// server is what the node knows of its store or its broker. It logs once per change, and each minute while it is away. Of
// alarms that come and go it logs one a minute.
type server struct {
	name    string // store, broker
	logger  hclog.Logger
	journal func(messages.JournalEntry) // records each change

	mu     sync.Mutex
	now    condition
	logged time.Time
	alarms throttle.Alarm
}

// set takes a new look at the server and reports whether it stands otherwise than before. A new reason alone is no
// change.
func (s *server) set(up, blocked bool, reason string) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, before := time.Now(), s.now
	changed = before.since.IsZero() || before.up != up || before.blocked != blocked
	s.now.up, s.now.blocked, s.now.reason, s.now.known = up, blocked, reason, before.known || up
	if changed {
		s.now.since = at
	}
	switch {
	case changed:
		s.logged = at
		s.tell(before, at)
		s.record(before)
	case reason != "" && at.Sub(s.logged) >= repeatEvery:
		s.logged = at
		s.alarms.Told()
		s.logger.Warn(s.name+" is still "+word(s.now), "since", before.since, "reason", reason)
	}
	return changed
}

// word is how people say it.
func word(c condition) string {
	switch {
	case !c.up:
		return "away"
	case c.blocked:
		return "blocked"
	}
	return "up"
}

// tell logs one change.
func (s *server) tell(before condition, at time.Time) {
	switch {
	case !s.now.up && !before.known:
		s.logger.Warn("waiting for the "+s.name, "reason", s.now.reason)
	case !s.now.up:
		s.logger.Warn(s.name+" is away; running work goes on, and nothing new is placed", "reason", s.now.reason)
	case s.now.blocked:
		if pass, withheld := s.alarms.Begin(at); pass {
			s.logger.Warn(s.name+" is blocked: it takes no messages for now, and nothing new is placed",
				append(throttle.LeftOut(withheld), "reason", s.now.reason)...)
		}
	case before.up && before.blocked && !s.alarms.End(): // its beginning was left out too
	case before.since.IsZero():
		s.logger.Debug(s.name + " is up")
	default:
		s.logger.Info(s.name+" is back", "was", word(before), "after", at.Sub(before.since).Round(time.Millisecond))
	}
}

// record records one change. That the server is there at the start is no news.
func (s *server) record(before condition) {
	e := messages.JournalEntry{Kind: messages.JournalServer, Subject: s.name, What: "back", Reason: s.now.reason}
	switch {
	case s.journal == nil:
		return
	case !s.now.up:
		e.What = "away"
	case s.now.blocked:
		e.What = "blocked"
	case before.since.IsZero():
		return
	}
	s.journal(e)
}

// read returns how the server stands.
func (s *server) read() condition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// waits is what the node waits for of this server; empty: nothing.
func (s *server) waits() string {
	c := s.read()
	if c.since.IsZero() || c.up && !c.blocked {
		return ""
	}
	text := s.name + ": " + c.reason
	if c.blocked {
		text = s.name + ": blocked: " + c.reason
	}
	return text
}

// away reports whether an error means that a server cannot be reached or takes no writes, so that waiting helps: a replica may be promoted.
// Everything else (a wrong password, a database that is not there, a server that is too old, a missing permission) needs a person.
func away(err error) bool {
	return storeAway(err) || errors.Is(err, broker.ErrUnavailable)
}

func storeAway(err error) bool { return store.Unanswered(err) || errors.Is(err, store.ErrReadOnly) }

// doubt is a store that raises suspicion at the calls that every node makes all the time; the watcher then asks it.
type doubt struct {
	store.Store
	suspect func()
	counted *depths
	full    *fullness
	// searched are the actions in whose parameters a list looks for a text.
	searched func() []string
}

// ask begins a call. One that lasts raises suspicion before it fails: a server that hangs says nothing.
func (d *doubt) ask() *time.Timer { return time.AfterFunc(slowCall, d.suspect) }

// note ends a call.
func (d *doubt) note(slow *time.Timer, err error) {
	slow.Stop()
	if err != nil && storeAway(err) {
		d.suspect()
	}
}

// Submit implements store.Store.
func (d *doubt) Submit(ctx context.Context, executions []messages.Execution) ([]store.Submitted, error) {
	return d.SubmitPlaced(ctx, executions, nil)
}

// SubmitPlaced implements store.Store.
func (d *doubt) SubmitPlaced(ctx context.Context, executions []messages.Execution, places []*store.Place) ([]store.Submitted, error) {
	slow := d.ask()
	submitted, err := d.Store.SubmitPlaced(ctx, executions, places)
	d.counted.submitted()
	d.full.note(err)
	d.note(slow, err)
	return submitted, err
}

// Retry implements store.Store.
func (d *doubt) Retry(ctx context.Context, id messages.ExecutionID, next messages.Execution, by string) (store.Submitted, error) {
	slow := d.ask()
	submitted, err := d.Store.Retry(ctx, id, next, by)
	d.counted.submitted()
	d.full.note(err)
	d.note(slow, err)
	return submitted, err
}

// Apply implements store.Store.
func (d *doubt) Apply(ctx context.Context, changes []store.Change) ([]store.Result, error) {
	slow := d.ask()
	results, err := d.Store.Apply(ctx, changes)
	d.full.note(err)
	d.note(slow, err)
	return results, err
}

// Due implements store.Store.
func (d *doubt) Due(ctx context.Context, q store.DueQuery) (store.DuePage, error) {
	slow := d.ask()
	page, err := d.Store.Due(ctx, q)
	d.note(slow, err)
	return page, err
}

// Get implements store.Store.
func (d *doubt) Get(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
	if store.AdmissionOf(ctx) != nil { // the wait for room says nothing of the store
		e, err := d.Store.Get(ctx, id)
		if err != nil && store.Unanswered(err) {
			d.suspect()
		}
		return e, err
	}
	slow := d.ask()
	e, err := d.Store.Get(ctx, id)
	d.note(slow, err)
	return e, err
}

// List implements store.Store. A text is searched in the parameters of some actions, too.
func (d *doubt) List(ctx context.Context, f store.Filter) (store.Page, error) {
	if len(f.Texts)+len(f.Not.Texts) > 0 && d.searched != nil {
		f.ParametersOf = d.searched()
	}
	slow := d.ask()
	page, err := d.Store.List(ctx, f)
	d.note(slow, err)
	return page, err
}

// Overdue implements store.Store.
func (d *doubt) Overdue(ctx context.Context, q store.OverdueQuery) ([]messages.Execution, error) {
	slow := d.ask()
	rows, err := d.Store.Overdue(ctx, q)
	d.note(slow, err)
	return rows, err
}
