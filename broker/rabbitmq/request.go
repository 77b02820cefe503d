package rabbitmq

import (
	"sync"

	"github.com/troupe-run/troupe/broker"
)

// request holds one caller's messages until they are settled.
type request struct {
	messages []broker.Message
	done     chan struct{} // closed when every message is settled

	mu       sync.Mutex
	confirms []broker.Confirm
	open     int   // number of unsettled messages
	cause    error // the first reason for an Unknown
	vacant   bool  // the caller does not wait any more
}

func newRequest(messages []broker.Message) *request {
	return &request{messages: messages, done: make(chan struct{}), confirms: unknown(len(messages)), open: len(messages)}
}

// settle records the confirm of message i; cause is why it is Unknown.
func (r *request) settle(i int, c broker.Confirm, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.vacant {
		return
	}
	r.confirms[i] = c
	if c == broker.Unknown && r.cause == nil {
		r.cause = cause
	}
	if r.open--; r.open == 0 {
		close(r.done)
	}
}

// abandoned reports that the caller does not wait any more.
func (r *request) abandoned() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.vacant
}

// abandon returns the confirms so far. Messages that were not sent will not be sent, and later confirms are dropped.
func (r *request) abandon() ([]broker.Confirm, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.vacant = true
	return r.confirms, r.cause
}
