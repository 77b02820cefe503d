package live

// Ring keeps the newest of numbered items, up to a number and a size. The first item has the number 1. The oldest go first.
type Ring[T any] struct {
	itemsMax, bytesMax int
	sizeOf             func(T) int // nil: items have no size

	items []T
	first int64 // number of items[0], or of the next item if there is none
	bytes int
}

// NewRing returns a ring for so many items of so many bytes.
func NewRing[T any](itemsMax, bytesMax int, sizeOf func(T) int) *Ring[T] {
	return &Ring[T]{itemsMax: itemsMax, bytesMax: bytesMax, sizeOf: sizeOf, first: 1}
}

// Add adds an item, returns its number, and says how many were dropped for it. An item that is larger than the ring is dropped too.
func (r *Ring[T]) Add(item T) (number int64, dropped int) {
	number = r.Last() + 1
	r.items = append(r.items, item)
	r.bytes += r.size(item)
	for len(r.items) > r.itemsMax || r.bytes > r.bytesMax {
		r.Drop()
		dropped++
	}
	return number, dropped
}

// Drop drops the oldest item, and reports whether there was one.
func (r *Ring[T]) Drop() bool {
	if len(r.items) == 0 {
		return false
	}
	var none T
	r.bytes -= r.size(r.items[0])
	r.items[0] = none
	r.items = r.items[1:]
	r.first++
	return true
}

// Size is what the items take, in bytes.
func (r *Ring[T]) Size() int { return r.bytes }

// Last is the number of the newest item; 0: there was none.
func (r *Ring[T]) Last() int64 { return r.first + int64(len(r.items)) - 1 }

// After returns the items behind a number, and whether those are all: nothing of them was dropped, and the number was given. The
// items are the ring's own until the next Add.
func (r *Ring[T]) After(number int64) (items []T, all bool) {
	if number < r.first-1 || number > r.Last() {
		return r.items, false
	}
	return r.items[number-r.first+1:], true
}

func (r *Ring[T]) size(item T) int {
	if r.sizeOf == nil {
		return 0
	}
	return r.sizeOf(item)
}
