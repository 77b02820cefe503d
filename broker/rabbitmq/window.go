package rabbitmq

const (
	// smallBody is what a body may have, in bytes, without being counted: more than any message of Troupe's own to a worker.
	smallBody = 32 << 10
	// heldBytes bounds the large bodies that one consumer has unsettled, in bytes. A larger one is taken alone.
	heldBytes = 16 << 20
	// careful is the prefetch of a consumer that knows no sizes yet.
	careful = 4
)

// window decides how many messages a consumer asks its server for. AMQP bounds their number, and servers do not bound
// their bytes, so the number follows the sizes that come: few until they are known, all while they are small, fewer
// behind a large one. A prefetch holds for one subscription, so that another number means to subscribe again, which is done
// where it gains something.
//
// It is pure: whoever consumes tells of arrivals and settlements, and asks next what to do.
type window struct {
	max int // the prefetch that was asked for

	at      int    // of the subscription; 0: there is none, until something is settled
	serial  uint64 // of the subscription
	current int    // unsettled of the subscription, which the server counts
	seen    int    // of the last deliveries, up to a whole prefetch of them
	largest int    // of their counted sizes
	over    bool   // one was given back

	held  int // unsettled of all subscriptions
	bytes int // counted, of those
}

func newWindow(prefetch int) window {
	w := window{max: prefetch}
	n := careful
	if prefetch <= 2*careful { // growing would not gain anything
		n = prefetch
	}
	w.subscribed(n)
	return w
}

// weight is what a body counts for, in bytes.
func weight(size int) int {
	if size <= smallBody {
		return 0
	}
	return size
}

// subscribed notes a subscription of n; 0: its end, behind which the next one remembers the sizes.
func (w *window) subscribed(n int) {
	w.serial++
	w.at, w.current, w.seen, w.over = n, 0, 0, false
	if n > 0 {
		w.largest = 0
	}
}

// arrive takes a delivery's size. False: it is to be given back to the queue at once, since there is too much in hand.
func (w *window) arrive(size int) (keep bool) {
	counted := weight(size)
	if w.seen >= w.at {
		w.seen, w.largest = 0, 0
	}
	w.seen++
	w.largest = max(w.largest, counted)
	if counted > 0 && w.bytes+counted > heldBytes && !w.light() {
		w.over = true
		return false
	}
	w.held++
	w.current++
	w.bytes += counted
	return true
}

// light reports whether so little is in hand that one body more may have any size.
func (w *window) light() bool { return w.bytes <= heldBytes/4 }

// settled takes the settlement of a delivery of a subscription.
func (w *window) settled(size int, serial uint64) {
	w.held--
	w.bytes -= weight(size)
	if serial == w.serial {
		w.current--
	}
}

// next says what prefetch to subscribe again with; 0: to end the subscription for now. change false: all stays.
func (w *window) next() (n int, change bool) {
	goal, room := w.goal(), w.max-w.held
	switch {
	case w.at == 0:
		n = min(goal, careful, room)
		return n, n > 0 && w.light()
	case w.over:
		return 0, true
	case goal < w.at:
		return max(0, min(goal, room)), true
	}
	full := w.current >= w.at
	if full && w.bytes == 0 { // nothing that is waited for is large
		goal = w.max
	}
	n = min(goal, room)
	return n, full && (n > w.at || n > w.slack()) || w.seen >= w.at && n >= 2*w.at
}

// slack is how many fewer than its prefetch a consumer may do with: those unsettled of earlier subscriptions.
func (w *window) slack() int { return careful + w.max/32 }

// goal is the prefetch for bodies of the sizes that came.
func (w *window) goal() int {
	if w.largest == 0 {
		return w.max
	}
	return max(1, min(heldBytes/w.largest, w.max))
}
