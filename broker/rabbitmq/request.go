package rabbitmq

import (
	"sync"

	"github.com/troupe-run/troupe/broker"
)

// request is one caller's messages on their way.
type request struct {
	messages []broker.Message
	done     chan struct{} // closed when every message is settled

	mu       sync.Mutex
	confirms []broker.Confirm
	open     int   // messages that are not settled
	cause    error // the first reason for an Unknown
	vacant   bool  // the caller has gone
}

func newRequest(messages []broker.Message) *request {
	return &request{messages: messages, done: make(chan struct{}), confirms: unknown(len(messages)), open: len(messages)}
}

// settle records the outcome of message i; cause is why it is Unknown.
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

// abandoned says that nobody waits for the rest.
func (r *request) abandoned() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.vacant
}

// abandon returns what is known. Messages that have not been sent will not be, and later outcomes are dropped.
func (r *request) abandon() ([]broker.Confirm, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.vacant = true
	return r.confirms, r.cause
}
