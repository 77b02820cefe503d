package interest

// Bounds are what a Queue holds at most, and one message of it.
type Bounds struct {
	Items, Bytes               int // that wait
	MessageItems, MessageBytes int // in one message; an item above MessageBytes never goes
}

// Queue gathers what goes to one node. One message is on its way at a time, and what comes meanwhile goes in the next ones.
type Queue[T any] struct {
	bounds Bounds
	items  []sized[T]
	bytes  int
	busy   bool // a message is on its way
}

type sized[T any] struct {
	item T
	size int
}

// NewQueue returns an empty queue.
func NewQueue[T any](b Bounds) *Queue[T] { return &Queue[T]{bounds: b} }

// Add takes an item of a size. Ok: there was room. Begin: no message is on its way, so that Next is to be called.
func (q *Queue[T]) Add(item T, size int) (begin, ok bool) {
	if len(q.items) >= q.bounds.Items || q.bytes+size > q.bounds.Bytes || size > q.bounds.MessageBytes {
		return false, false
	}
	q.items, q.bytes = append(q.items, sized[T]{item, size}), q.bytes+size
	begin, q.busy = !q.busy, true
	return begin, true
}

// Next returns what the next message has, in the order in which it came. Nothing: none is on its way any more.
func (q *Queue[T]) Next() []T {
	if len(q.items) == 0 {
		q.busy, q.items = false, nil
		return nil
	}
	bytes, n := 0, 0
	for n < len(q.items) && n < q.bounds.MessageItems && bytes+q.items[n].size <= q.bounds.MessageBytes {
		bytes += q.items[n].size
		n++
	}
	next := make([]T, n)
	for i := range next {
		next[i] = q.items[i].item
	}
	clear(q.items[:n])
	q.items, q.bytes = q.items[n:], q.bytes-bytes
	return next
}

// Drop forgets what waits, and returns how much that was.
func (q *Queue[T]) Drop() int {
	n := len(q.items)
	q.items, q.bytes = nil, 0
	return n
}
