package memory

// ring is a double-ended queue of entries in one slice whose length is a power of two. Its owner bounds it.
type ring struct {
	slots  []*entry
	head   int
	length int
}

// ringKeep is the size under which an empty ring keeps its slice.
const ringKeep = 1024

func (r *ring) front() *entry { return r.slots[r.head] }

func (r *ring) pushBack(e *entry) {
	r.grow()
	r.slots[(r.head+r.length)&(len(r.slots)-1)] = e
	r.length++
}

func (r *ring) pushFront(e *entry) {
	r.grow()
	r.head = (r.head - 1) & (len(r.slots) - 1)
	r.slots[r.head] = e
	r.length++
}

func (r *ring) popFront() *entry {
	e := r.slots[r.head]
	r.slots[r.head] = nil
	r.head = (r.head + 1) & (len(r.slots) - 1)
	r.length--
	if r.length == 0 && len(r.slots) > ringKeep {
		*r = ring{} // releases the memory of a burst
	}
	return e
}

func (r *ring) grow() {
	if r.length < len(r.slots) {
		return
	}
	slots := make([]*entry, max(16, 2*len(r.slots)))
	n := copy(slots, r.slots[r.head:])
	copy(slots[n:], r.slots[:r.head])
	r.slots, r.head = slots, 0
}
