package live

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// Change makes one state of an answer of another. Applied to nothing, with Keys, it is a snapshot.
type Change struct {
	// Set has what is new or has another value, as pairs of a key and a value, in the order in which they stand.
	Set []Pair `json:"set,omitempty"`
	// Gone has the keys that are there no more.
	Gone []string `json:"gone,omitempty"`
	// Keys is the order of all keys. Without it, what is new stands before all others, which keep their order.
	Keys []string `json:"keys,omitempty"`
}

// Pair is an entry in JSON: a list of its key and its value.
type Pair Entry

// MarshalJSON implements json.Marshaler.
func (p Pair) MarshalJSON() ([]byte, error) { return p.appendTo(nil) }

func (p *Pair) appendTo(text []byte) ([]byte, error) {
	key, err := json.Marshal(p.Key)
	if err != nil {
		return nil, err
	}
	text = append(append(append(text, '['), key...), ',')
	return append(append(text, p.Value...), ']'), nil
}

// AppendPairs adds a list of pairs to a JSON text, as json.Marshal writes it, but for the values, which it takes as they are.
func AppendPairs(text []byte, pairs []Pair) (_ []byte, err error) {
	text = append(text, '[')
	for i := range pairs {
		if i > 0 {
			text = append(text, ',')
		}
		if text, err = pairs[i].appendTo(text); err != nil {
			return nil, err
		}
	}
	return append(text, ']'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Pair) UnmarshalJSON(text []byte) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(text, &parts); err != nil {
		return err
	}
	if len(parts) != 2 {
		return fmt.Errorf("an entry is a key and a value, got %d parts", len(parts))
	}
	p.Value = parts[1]
	return json.Unmarshal(parts[0], &p.Key)
}

// Empty reports whether nothing changes.
func (c *Change) Empty() bool { return len(c.Set) == 0 && len(c.Gone) == 0 && len(c.Keys) == 0 }

// Snapshot is the change from nothing to entries.
func Snapshot(entries []Entry) Change {
	c := Change{Set: make([]Pair, len(entries))}
	for i := range entries {
		c.Set[i] = Pair(entries[i])
	}
	return c
}

// Diff is the change from one state to the next. No two entries of a state have the same key.
func Diff(from, to []Entry) Change {
	if slices.EqualFunc(from, to, func(a, b Entry) bool { return a.Key == b.Key }) {
		return Change{Set: differing(from, to)}
	}
	var c Change
	old := index(from)
	next := make(map[string]bool, len(to))
	var fresh, kept []string
	for i := range to {
		e := &to[i]
		next[e.Key] = true
		before, known := old[e.Key]
		if !known {
			fresh = append(fresh, e.Key)
		}
		if !known || !bytes.Equal(from[before].Value, e.Value) {
			c.Set = append(c.Set, Pair(*e))
		}
	}
	for i := range from {
		if next[from[i].Key] {
			kept = append(kept, from[i].Key)
		} else {
			c.Gone = append(c.Gone, from[i].Key)
		}
	}
	usual := slices.Concat(fresh, kept)
	if keys := keysOf(to); !slices.Equal(usual, keys) {
		c.Keys = keys
	}
	return c
}

// differing are the entries that have another value in a state of the same keys.
func differing(from, to []Entry) (set []Pair) {
	for i := range to {
		if !bytes.Equal(from[i].Value, to[i].Value) {
			set = append(set, Pair(to[i]))
		}
	}
	return set
}

// Apply makes the next state. An error says that the change does not belong to this state.
func (c *Change) Apply(from []Entry) ([]Entry, error) {
	values := make(map[string]json.RawMessage, len(from)+len(c.Set))
	for i := range from {
		values[from[i].Key] = from[i].Value
	}
	for _, key := range c.Gone {
		if _, known := values[key]; !known {
			return nil, fmt.Errorf("apply a change: there is no %s that could be gone", key)
		}
		delete(values, key)
	}
	known := index(from)
	var keys []string
	for i := range c.Set {
		if _, old := known[c.Set[i].Key]; !old {
			keys = append(keys, c.Set[i].Key)
		}
		values[c.Set[i].Key] = c.Set[i].Value
	}
	for i := range from {
		if _, kept := values[from[i].Key]; kept {
			keys = append(keys, from[i].Key)
		}
	}
	if len(c.Keys) > 0 {
		keys = c.Keys
	}
	if len(keys) != len(values) {
		return nil, fmt.Errorf("apply a change: the order has %d keys and the state %d", len(keys), len(values))
	}
	to := make([]Entry, len(keys))
	for i, key := range keys {
		value, known := values[key]
		if !known {
			return nil, fmt.Errorf("apply a change: the order has %s, and the state has not", key)
		}
		to[i] = Entry{Key: key, Value: value}
	}
	return to, nil
}

func index(entries []Entry) map[string]int {
	at := make(map[string]int, len(entries))
	for i := range entries {
		at[entries[i].Key] = i
	}
	return at
}

func keysOf(entries []Entry) []string {
	keys := make([]string, len(entries))
	for i := range entries {
		keys[i] = entries[i].Key
	}
	return keys
}
