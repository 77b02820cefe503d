package roster

import "time"

// beatHeap orders workers by the moment at which their heartbeat must be looked at, the earliest on top.
type beatHeap struct{ items []beatItem }

type beatItem struct {
	at     time.Time
	worker *worker
}

// due returns what is on top where its moment has passed.
func (h *beatHeap) due(now time.Time) (beatItem, bool) {
	if len(h.items) == 0 || !h.items[0].at.Before(now) {
		return beatItem{}, false
	}
	return h.items[0], true
}

func (h *beatHeap) push(w *worker, at time.Time) {
	h.items = append(h.items, beatItem{at, w})
	for i := len(h.items) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h.items[i].at.Before(h.items[parent].at) {
			return
		}
		h.items[i], h.items[parent] = h.items[parent], h.items[i]
		i = parent
	}
}

func (h *beatHeap) pop() {
	last := len(h.items) - 1
	h.items[0] = h.items[last]
	h.items[last] = beatItem{}
	h.items = h.items[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if h.items[child].at.Before(h.items[least].at) {
				least = child
			}
		}
		if least == i {
			return
		}
		h.items[i], h.items[least] = h.items[least], h.items[i]
		i = least
	}
}
