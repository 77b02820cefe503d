package facets

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/rollup"
)

// Bounds of an answer.
const (
	FieldsMax = 10   // of one answer
	ValuesMax = 2000 // of a field that are told apart; further ones are one, Other
)

// Other is the value of what has no value of its own.
const Other = rollup.Other

// Field is what executions are counted by: one of Fields, or LabelPrefix with the name of a label.
type Field string

// The fields.
const (
	Status  Field = "status"
	Action  Field = "action"
	Pool    Field = "pool"
	Error   Field = "error"
	Version Field = "version"
	Worker  Field = "worker"
	Session Field = "session"
)

// LabelPrefix begins the field of a label.
const LabelPrefix = "label."

// Fields lists those that are not labels. The first four are the default.
func Fields() []Field { return []Field{Status, Action, Pool, Error, Version, Worker, Session} }

// Valid reports whether there is such a field.
func (f Field) Valid() bool {
	name, label := strings.CutPrefix(string(f), LabelPrefix)
	return label && name != "" || slices.Contains(Fields(), f)
}

// Minutely reports whether the counts by minute have the field.
func (f Field) Minutely() bool {
	return f == Status || f == Action || f == Pool || f == Error || f == Version
}

// Basis is what was counted.
type Basis string

// What is counted.
const (
	List    Basis = "list"    // the executions themselves
	Minutes Basis = "minutes" // what the nodes counted by minute
)

// Count is how many executions have a value.
type Count struct {
	Value string `json:"value"`
	N     int64  `json:"n"`
}

// Counts are the values of some fields.
type Counts struct {
	Basis  Basis
	All    int64 // executions
	fields []Field
	of     []map[string]int64
}

// New makes counts of fields without executions.
func New(basis Basis, fields []Field) *Counts {
	c := &Counts{Basis: basis, fields: fields, of: make([]map[string]int64, len(fields))}
	for i := range c.of {
		c.of[i] = map[string]int64{}
	}
	return c
}

// Add adds an execution.
func (c *Counts) Add(e *messages.Execution) {
	c.All++
	for i, f := range c.fields {
		c.add(i, f.of(e), 1)
	}
}

// AddMinute adds what was counted of a key. Submissions are not counted: most of them have ended, and are counted there.
func (c *Counts) AddMinute(k *rollup.Key, n int64) {
	if k.Status == rollup.Submitted {
		return
	}
	c.All += n
	e := messages.Execution{Status: k.Status, Action: k.Action, Version: k.Version, Pool: k.Pool}
	if k.Code != "" {
		e.Error = &messages.Error{Code: k.Code}
	}
	for i, f := range c.fields {
		c.add(i, f.of(&e), n)
	}
}

func (c *Counts) add(field int, value string, n int64) {
	if value == "" {
		return
	}
	of := c.of[field]
	if _, known := of[value]; !known && len(of) >= ValuesMax {
		value = Other
	}
	of[value] += n
}

// of is an execution's value of the field; empty: it has none.
func (f Field) of(e *messages.Execution) string {
	switch f {
	case Status:
		return e.Status.String()
	case Action:
		return e.Action
	case Pool:
		return e.Pool
	case Error:
		if e.Error != nil {
			return string(e.Error.Code)
		}
		return ""
	case Version:
		return e.Action + "@" + e.Version
	case Worker:
		return string(e.WorkerID)
	case Session:
		return e.Session
	}
	return e.Labels[strings.TrimPrefix(string(f), LabelPrefix)]
}

// Done returns the most frequent values of each field, at most so many, and how many values of a field there are beyond.
func (c *Counts) Done(limit int) (fields map[string][]Count, left map[string]int) {
	fields, left = map[string][]Count{}, map[string]int{}
	for i, f := range c.fields {
		list := make([]Count, 0, len(c.of[i]))
		for value, n := range c.of[i] {
			list = append(list, Count{value, n})
		}
		slices.SortFunc(list, func(a, b Count) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Value, b.Value)) })
		if n := len(list) - limit; n > 0 {
			list, left[string(f)] = list[:limit], n
		}
		fields[string(f)] = list
	}
	return fields, left
}

// Share is the share of a time, from its end back to a moment, of the whole time.
func Share(from, to, back time.Time) float64 {
	if whole := to.Sub(from); whole > 0 {
		return min(max(to.Sub(back).Seconds()/whole.Seconds(), 0), 1)
	}
	return 1
}
