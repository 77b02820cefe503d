package memory

import "time"

// arm makes the timer fire no later than the queue's next event: its head expires, or the queue itself does. A timer
// that fires too early does nothing and is armed again, so a change of the head costs no timer operation. The caller
// holds q.mu.
func (q *queue) arm(now time.Duration) {
	next := q.nextEvent()
	if q.gone || next == 0 || (q.armed != 0 && q.armed <= next) {
		return
	}
	q.armed = next
	wait := max(0, next-now)
	if q.timer == nil {
		q.timer = time.AfterFunc(wait, q.tick)
		return
	}
	q.timer.Reset(wait)
}

func (q *queue) nextEvent() time.Duration {
	var next time.Duration
	if q.ready.length > 0 {
		next = q.ready.front().deadline
	}
	if end := q.expiresAt(); end != 0 && (next == 0 || end < next) {
		next = end
	}
	return next
}

// expiresAt returns when the queue expires if it is not used until then; 0: never.
func (q *queue) expiresAt() time.Duration {
	if q.spec.Expires == 0 || len(q.consumers) > 0 {
		return 0
	}
	return q.usedAt + q.spec.Expires
}

func (q *queue) unused(now time.Duration) bool {
	end := q.expiresAt()
	return end != 0 && end <= now
}

// tick runs on the timer's goroutine.
func (q *queue) tick() {
	q.mu.Lock()
	if q.gone {
		q.mu.Unlock()
		return
	}
	now := q.server.now()
	q.armed = 0
	dead := q.expireHeads(now, nil)
	due := q.unused(now)
	if !due {
		q.arm(now)
	}
	q.unlockAndPublish(dead)
	if due {
		q.server.remove(q.spec.Name, q.keep(now))
	}
}

// keep returns a function that tests whether the queue was used meanwhile. It runs under the locks of remove.
func (q *queue) keep(now time.Duration) func(*queue) bool {
	return func(found *queue) bool {
		if found == q && q.unused(now) {
			return false
		}
		found.arm(now)
		return true
	}
}
