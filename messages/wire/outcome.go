package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"reflect"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/messages"
	troupev1 "github.com/troupe-run/troupe/proto/troupe/v1"
)

// Bounds on what one Await and one Outcomes may hold.
const (
	AwaitMax         = 1000             // executions of one Await: 24 KB
	AwaitTimeMax     = 90 * time.Second // for which an outcome may be wanted: longer than a waiting caller goes without a look at the store
	OutcomesMax      = 256              // outcomes of one Outcomes
	OutcomeBytesMax  = 64 << 10         // bytes of one outcome; a longer one is read from the store
	OutcomesBytesMax = 192 << 10        // bytes of all outcomes of one Outcomes, so that with their lengths they keep to PayloadMax
)

// OutcomeForm stands for the fields of an execution in this release. A node that reads other fields than another one from the store would not
// be told what it reads, so outcomes go only between nodes of one form.
var OutcomeForm = formOf(reflect.TypeFor[messages.Execution]())

// Await asks for the outcomes of executions that callers of the sender wait for.
type Await struct {
	Form       uint64 // the sender's OutcomeForm
	Executions []Awaited
}

// Awaited is one execution whose outcome is wanted for a time, in whole seconds.
type Awaited struct {
	ID  messages.ExecutionID
	For time.Duration
}

// Outcomes are executions that have ended, as the sender has stored them.
type Outcomes struct{ Outcomes []Outcome }

// Outcome is one execution that has ended, encoded: see EncodeOutcome.
type Outcome struct {
	Record  []byte // as JSON, without what follows
	Result  []byte // as it is stored
	Details []byte // of the error, as they are stored
}

// ErrNotCarried means that an outcome cannot be sent as the store has it, and is to be read there.
var ErrNotCarried = errors.New("the outcome cannot be sent whole")

// unfaithful is how encoding/json replaces bytes that are no UTF-8.
var unfaithful = []byte(`\ufffd`)

// EncodeOutcome encodes an execution that has ended, without its parameters. ErrNotCarried: it is too long, or has a text that is no UTF-8.
func EncodeOutcome(e *messages.Execution) (Outcome, error) {
	short := *e
	o := Outcome{Result: short.Result}
	short.Parameters, short.Result = nil, nil
	if e.Error != nil {
		failure := *e.Error
		o.Details, failure.Details = failure.Details, nil
		short.Error = &failure
	}
	if len(o.Result)+len(o.Details) > OutcomeBytesMax {
		return Outcome{}, ErrNotCarried
	}
	var err error
	if o.Record, err = json.Marshal(&short); err != nil {
		return Outcome{}, fmt.Errorf("%w: %w", ErrNotCarried, err)
	}
	if o.Size() > OutcomeBytesMax || bytes.Contains(o.Record, unfaithful) {
		return Outcome{}, ErrNotCarried
	}
	return o, nil
}

// Size is the outcome's length in bytes.
func (o *Outcome) Size() int { return len(o.Record) + len(o.Result) + len(o.Details) }

// Decode returns the execution, without its parameters. It refuses one that has not ended.
func (o *Outcome) Decode() (messages.Execution, error) {
	var e messages.Execution
	if err := json.Unmarshal(o.Record, &e); err != nil {
		return messages.Execution{}, fmt.Errorf("decode an outcome: %w", err)
	}
	switch {
	case e.ID.IsZero():
		return messages.Execution{}, errors.New("decode an outcome: it has no id")
	case !e.Status.Terminal():
		return messages.Execution{}, fmt.Errorf("decode an outcome: execution %s is %s, which is none", e.ID, e.Status)
	case len(o.Details) > 0 && e.Error == nil:
		return messages.Execution{}, fmt.Errorf("decode an outcome: execution %s has the details of an error, and no error", e.ID)
	}
	e.Parameters, e.Result = nil, o.Result
	if e.Error != nil {
		e.Error.Details = o.Details
	}
	return e, nil
}

func (Await) kind() troupev1.Kind    { return troupev1.Kind_KIND_AWAIT }
func (Outcomes) kind() troupev1.Kind { return troupev1.Kind_KIND_OUTCOMES }

func (b Await) encode() proto.Message {
	p := &troupev1.Await{Form: b.Form, Executions: make([]*troupev1.Awaited, len(b.Executions))}
	for i, x := range b.Executions {
		p.Executions[i] = &troupev1.Awaited{Execution: idBytes(x.ID), Seconds: uint32(x.For / time.Second)}
	}
	return p
}

func (b Outcomes) encode() proto.Message {
	p := &troupev1.Outcomes{Outcomes: make([]*troupev1.Outcome, len(b.Outcomes))}
	for i, o := range b.Outcomes {
		p.Outcomes[i] = &troupev1.Outcome{Execution: o.Record, Result: o.Result, Details: o.Details}
	}
	return p
}

func awaitFromProto(p *troupev1.Await) (Body, error) {
	if n := len(p.GetExecutions()); n > AwaitMax {
		return nil, fmt.Errorf("it has %d executions, the limit is %d", n, AwaitMax)
	}
	b := Await{Form: p.GetForm(), Executions: make([]Awaited, len(p.GetExecutions()))}
	for i, x := range p.GetExecutions() {
		id, err := parseID[messages.ExecutionID]("execution", x.GetExecution())
		if err != nil {
			return nil, err
		}
		b.Executions[i] = Awaited{ID: id, For: time.Duration(x.GetSeconds()) * time.Second}
	}
	return b, nil
}

func outcomesFromProto(p *troupev1.Outcomes) (Body, error) {
	if n := len(p.GetOutcomes()); n > OutcomesMax {
		return nil, fmt.Errorf("it has %d outcomes, the limit is %d", n, OutcomesMax)
	}
	b := Outcomes{Outcomes: make([]Outcome, len(p.GetOutcomes()))}
	for i, o := range p.GetOutcomes() {
		b.Outcomes[i] = Outcome{Record: o.GetExecution(), Result: o.GetResult(), Details: o.GetDetails()}
	}
	return b, nil
}

func (b Await) check(messages.Placement) error {
	if n := len(b.Executions); n == 0 || n > AwaitMax {
		return fmt.Errorf("it has %d executions, want 1 to %d", n, AwaitMax)
	}
	for i, x := range b.Executions {
		switch {
		case x.ID.IsZero():
			return fmt.Errorf("execution %d has no id", i)
		case x.For < time.Second || x.For > AwaitTimeMax:
			return fmt.Errorf("execution %s is awaited for %s, want 1s to %s", x.ID, x.For, AwaitTimeMax)
		}
	}
	return nil
}

func (b Outcomes) check(messages.Placement) error {
	if n := len(b.Outcomes); n == 0 || n > OutcomesMax {
		return fmt.Errorf("it has %d outcomes, want 1 to %d", n, OutcomesMax)
	}
	total := 0
	for i := range b.Outcomes {
		size := b.Outcomes[i].Size()
		if total += size; size > OutcomeBytesMax {
			return fmt.Errorf("outcome %d has %d bytes, the limit is %d", i, size, OutcomeBytesMax)
		}
	}
	if total > OutcomesBytesMax {
		return fmt.Errorf("its outcomes have %d bytes, the limit is %d", total, OutcomesBytesMax)
	}
	return nil
}

// formOf is a number for the names and the types of all that is in a type.
func formOf(t reflect.Type) uint64 {
	h := fnv.New64a()
	describe(h, t)
	return h.Sum64()
}

func describe(w io.Writer, t reflect.Type) {
	fmt.Fprintf(w, "%s ", t.Kind())
	if t == reflect.TypeFor[time.Time]() {
		return
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		describe(w, t.Elem())
	case reflect.Map:
		describe(w, t.Key())
		describe(w, t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			fmt.Fprintf(w, "%s %q ", f.Name, f.Tag)
			describe(w, f.Type)
		}
	}
}
