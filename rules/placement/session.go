package placement

import (
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Session is what the table knows of one session; it is what the store keeps of it.
type Session struct {
	Name string
	// Worker is whom the session is bound to; zero: no binding.
	Worker messages.WorkerKey
	// Left is whom the binding of the epoch was to, where it has ended; zero: it has not, or that is not known.
	Left messages.WorkerKey
	// Epoch is that of the binding, or of the last one; it grows with each new binding, from 1.
	Epoch int64
	// Started is the epoch of the first execution that may have begun with the session's state; 0: none has, so there is
	// nothing to lose.
	Started int64
	// Finished is the epoch of the last execution that finished with the session's state; 0: none did.
	Finished int64
	// Restored says that a snapshot was restored in this epoch, so nothing was lost.
	Restored bool
	// InFlight counts its executions that wait or run on its worker.
	InFlight int
	// Loss says how the last binding ended, while nobody has been told.
	Loss Loss
	// Touched is when the session was last used, or when its binding ended.
	Touched time.Time
}

// Loss is how a session's state was lost.
type Loss uint8

// The losses.
const (
	NotLost    Loss = iota
	WorkerGone      // the bound worker went away
	IdledOut        // the binding was not used for the session timeout
)

// Ended is a binding that has ended: the worker's process is told to drop the session's state up to the epoch.
type Ended struct {
	Session string
	Worker  messages.WorkerKey
	Epoch   int64
}

// session is a Session in the table: in one of the orders, and, while bound, in its worker's list.
type session struct {
	Session
	node             *node // the bound worker; nil without a binding
	prev, next       *session
	sibling, sibprev *session
}

// order lists sessions by Touched, the oldest first.
type order struct {
	head, tail *session
	len        int
}

func (o *order) push(s *session) {
	s.prev, s.next = o.tail, nil
	if o.tail == nil {
		o.head = s
	} else {
		o.tail.next = s
	}
	o.tail = s
	o.len++
}

func (o *order) remove(s *session) {
	if s.prev == nil {
		o.head = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		o.tail = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, nil
	o.len--
}

func (s *session) bound() bool { return !s.Worker.IsZero() }

// started is the epoch of the first execution that may have begun, as a request for the session has to take it.
func (s *Session) started(r *Request) int64 {
	if s.Started > 0 {
		return s.Started
	}
	return r.Suspect
}

// told reports whether an execution of the session's present epoch is to be told that state was lost: one may have begun
// in an earlier epoch, nothing of this one has finished, and no snapshot was restored.
func (s *Session) told(r *Request) bool {
	started := s.started(r)
	return started > 0 && started < s.Epoch && s.Epoch > s.Finished && !s.Restored
}

// began notes that an execution may have begun with the session's state.
func (s *Session) began(epoch int64) {
	if s.Started == 0 {
		s.Started = epoch
	}
}

// attach links the session to a worker.
func (s *session) attach(n *node) {
	s.node, s.sibprev, s.sibling = n, nil, n.sessions
	if n.sessions != nil {
		n.sessions.sibprev = s
	}
	n.sessions = s
}

func (s *session) detach() {
	if s.sibprev == nil {
		s.node.sessions = s.sibling
	} else {
		s.sibprev.sibling = s.sibling
	}
	if s.sibling != nil {
		s.sibling.sibprev = s.sibprev
	}
	s.node, s.sibling, s.sibprev = nil, nil, nil
}
