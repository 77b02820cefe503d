package sqlite

import "github.com/troupe-run/troupe/messages"

// cache holds the rows that the writer wrote or read last, as they are in the file. Only the writer's goroutine uses
// it, and only this process writes the file, so its rows are current. Every UPDATE still compares. Two generations
// bound it: a row that was not used during one generation is forgotten.
type cache struct {
	hot, cold map[messages.ExecutionID]*record
	half      int
}

func newCache(limit int) *cache {
	c := &cache{half: max(limit/2, 1)}
	c.clear()
	return c
}

func (c *cache) clear() {
	c.hot, c.cold = map[messages.ExecutionID]*record{}, nil
}

func (c *cache) get(id messages.ExecutionID) *record {
	if r := c.hot[id]; r != nil {
		return r
	}
	r := c.cold[id]
	if r != nil {
		delete(c.cold, id)
		c.put(r)
	}
	return r
}

func (c *cache) put(r *record) {
	if len(c.hot) >= c.half {
		c.cold, c.hot = c.hot, make(map[messages.ExecutionID]*record, c.half)
	}
	c.hot[r.ID] = r
}

func (c *cache) drop(id messages.ExecutionID) {
	delete(c.hot, id)
	delete(c.cold, id)
}

// dropEnded forgets ended rows that a late or repeated change read: they may be deleted now.
func (c *cache) dropEnded() {
	for _, rows := range []map[messages.ExecutionID]*record{c.hot, c.cold} {
		for id, r := range rows {
			if r.Status.Terminal() {
				delete(rows, id)
			}
		}
	}
}
