package rabbitmq

const (
	// smallBody is the size in bytes up to which a body is not counted. Troupe's own messages to workers are smaller.
	smallBody = 32 << 10
	// heldBytes bounds the unsettled large bodies of one consumer, in bytes. A larger body is taken alone.
	heldBytes = 16 << 20
	// careful is the prefetch while the sizes are unknown.
	careful = 4
)

// window decides a consumer's prefetch. AMQP bounds the number of messages, and servers do not bound their bytes, so
// the prefetch follows the sizes: small until they are known, full while they are small, smaller after a large one. A
// prefetch holds for one subscription, so a new one needs a new subscription. The window asks for it only if the gain
// is worth it.
//
// It has no I/O: the consumer reports arrivals and settlements, and calls next for the decision.
type window struct {
	max int // the prefetch that the caller wants

	at      int    // prefetch of the subscription; 0: no subscription until a delivery is settled
	serial  uint64 // of the subscription
	current int    // unsettled deliveries of the subscription; the server counts the same
	seen    int    // how many of the last deliveries count, at most a whole prefetch
	largest int    // the largest of their counted sizes
	over    bool   // a delivery was given back

	held  int // unsettled of all subscriptions
	bytes int // their counted bytes
}

func newWindow(prefetch int) window {
	w := window{max: prefetch}
	n := careful
	if prefetch <= 2*careful { // a larger prefetch gains nothing
		n = prefetch
	}
	w.subscribed(n)
	return w
}

// weight returns the counted bytes of a body.
func weight(size int) int {
	if size <= smallBody {
		return 0
	}
	return size
}

// subscribed records a subscription with prefetch n, or with 0 its end. The sizes are kept for the next one.
func (w *window) subscribed(n int) {
	w.serial++
	w.at, w.current, w.seen, w.over = n, 0, 0, false
	if n > 0 {
		w.largest = 0
	}
}

// arrive records a delivery's size. It returns false if the delivery must be given back, since too many bytes are
// unsettled.
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

// light reports whether so few bytes are unsettled that one more body may have any size.
func (w *window) light() bool { return w.bytes <= heldBytes/4 }

// settled records the settlement of a delivery of a subscription.
func (w *window) settled(size int, serial uint64) {
	w.held--
	w.bytes -= weight(size)
	if serial == w.serial {
		w.current--
	}
}

// next returns the prefetch of the next subscription; 0 means to end the subscription for now. change is false if
// nothing is to be done.
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
	if full && w.bytes == 0 { // no large body is unsettled
		goal = w.max
	}
	n = min(goal, room)
	return n, full && (n > w.at || n > w.slack()) || w.seen >= w.at && n >= 2*w.at
}

// slack returns by how much a prefetch may be reduced by unsettled deliveries of earlier subscriptions before it is
// worth a new subscription.
func (w *window) slack() int { return careful + w.max/32 }

// goal returns the prefetch for the sizes so far.
func (w *window) goal() int {
	if w.largest == 0 {
		return w.max
	}
	return max(1, min(heldBytes/w.largest, w.max))
}
