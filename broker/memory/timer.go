package memory

import "time"

// arm makes sure that the timer fires by the queue's next event: its head expires, or the queue itself does. A timer
// that fires too early finds nothing and is armed again, so moving the head costs no timer operation. The caller
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

// expiresAt is when the queue goes if nobody uses it until then; 0: never.
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
	q.unlockAndBury(dead)
	if due {
		q.server.remove(q.spec.Name, q.keep(now))
	}
}

// keep asks again, under the locks that removing takes, whether the queue has come into use meanwhile.
func (q *queue) keep(now time.Duration) func(*queue) bool {
	return func(found *queue) bool {
		if found == q && q.unused(now) {
			return false
		}
		found.arm(now)
		return true
	}
}
