package wire

import (
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/messages"
	troupev1 "github.com/troupe-run/troupe/proto/troupe/v1"
)

// Bounds of what a node tells of its workers and of a run.
const (
	// OutputMax bounds the entries of one OutputResult, in bytes as RunEvent.Size counts them. One entry alone may be larger.
	OutputMax = 64 << 10
	// RunEventMax bounds one entry, in the same bytes, so that it fits into a payload; a larger one is cut by its sender.
	RunEventMax = PayloadMax - 4<<10
	// ViewsMax bounds the view of one Views, in bytes.
	ViewsMax = PayloadMax - 4<<10
	// entriesMax bounds the entries of one OutputResult.
	entriesMax = OutputMax / runEventBase
	// runEventBase is what an entry takes beside its texts, in bytes, at most.
	runEventBase = 64
)

// Cancel stops the envelope's execution if its placement is still the envelope's. Pool and Slot say which worker runs it.
type Cancel struct {
	By   string
	Pool string
	Slot messages.Slot
}

// Drain lets a node take no more work, finish what runs, and end.
type Drain struct{ By string }

// ProbeWorker asks for one worker with its history, probed before where Probe says so; or, where Runs says so, for its last runs.
type ProbeWorker struct {
	Pool  string
	Slot  messages.Slot
	Probe bool
	By    string
	Runs  bool
}

// Workers asks for a page of the node's workers, by pool and slot, behind After.
type Workers struct{ Pool, After string }

// Pools asks for a page of the node's pools, by name, behind After; or for Pool alone, in detail.
type Pools struct{ After, Pool string }

// Readings asks for a page of what the node's series have come to, by the texts of the series, behind After.
type Readings struct{ After string }

// Cells asks for a page of the node's pools, a letter for each worker, by name, behind After.
type Cells struct{ After string }

// Sights asks for a page of the other nodes and whether the node reaches them, by incarnation, behind After.
type Sights struct{ After string }

// Views answers a ProbeWorker, Workers, Pools, Readings, Cells or Sights: what the API shows, as JSON. Next is where the next page begins; empty:
// this is the last one.
type Views struct {
	View []byte
	Next string
}

// Output asks what was seen of the envelope's execution from an entry on. Feed is that of the last answer; 0 at first.
type Output struct{ Feed, From uint64 }

// OutputResult is what was seen of a run. More: there is more already. Ended: the run has ended, and nothing is left. Lost is how many entries
// before these were not kept, 0 from a node of an older release, and StdoutCut and StderrCut say whether bytes of a stream may be among those.
type OutputResult struct {
	Feed, Next           uint64
	Entries              []RunEvent
	More, Ended          bool
	Lost                 uint64
	StdoutCut, StderrCut bool
}

// RunEvent is one live event of a run. Kind is a word that the receiver judges; Fraction is negative where none was given.
type RunEvent struct {
	Kind           string
	At             time.Time
	Data, Chunk    []byte
	Fraction       float64
	Level, Message string
}

// Size is what an entry takes of a payload, in bytes, at most.
func (e RunEvent) Size() int {
	return runEventBase + len(e.Kind) + len(e.Data) + len(e.Chunk) + len(e.Level) + len(e.Message)
}

func (Cancel) kind() troupev1.Kind       { return troupev1.Kind_KIND_CANCEL }
func (Drain) kind() troupev1.Kind        { return troupev1.Kind_KIND_DRAIN }
func (ProbeWorker) kind() troupev1.Kind  { return troupev1.Kind_KIND_PROBE_WORKER }
func (Workers) kind() troupev1.Kind      { return troupev1.Kind_KIND_WORKERS }
func (Pools) kind() troupev1.Kind        { return troupev1.Kind_KIND_POOLS }
func (Readings) kind() troupev1.Kind     { return troupev1.Kind_KIND_READINGS }
func (Cells) kind() troupev1.Kind        { return troupev1.Kind_KIND_CELLS }
func (Sights) kind() troupev1.Kind       { return troupev1.Kind_KIND_SIGHTS }
func (Views) kind() troupev1.Kind        { return troupev1.Kind_KIND_VIEWS }
func (Output) kind() troupev1.Kind       { return troupev1.Kind_KIND_OUTPUT }
func (OutputResult) kind() troupev1.Kind { return troupev1.Kind_KIND_OUTPUT_RESULT }

func (b Cancel) encode() proto.Message {
	return &troupev1.Cancel{By: b.By, Pool: b.Pool, Slot: int32(b.Slot)}
}
func (b Drain) encode() proto.Message { return &troupev1.Drain{By: b.By} }
func (b ProbeWorker) encode() proto.Message {
	return &troupev1.ProbeWorker{Pool: b.Pool, Slot: int32(b.Slot), Probe: b.Probe, By: b.By, Runs: b.Runs}
}
func (b Workers) encode() proto.Message  { return &troupev1.Workers{Pool: b.Pool, After: b.After} }
func (b Pools) encode() proto.Message    { return &troupev1.Pools{After: b.After, Pool: b.Pool} }
func (b Readings) encode() proto.Message { return &troupev1.Readings{After: b.After} }
func (b Cells) encode() proto.Message    { return &troupev1.Cells{After: b.After} }
func (b Sights) encode() proto.Message   { return &troupev1.Sights{After: b.After} }
func (b Views) encode() proto.Message    { return &troupev1.Views{View: b.View, Next: b.Next} }
func (b Output) encode() proto.Message   { return &troupev1.Output{Feed: b.Feed, From: b.From} }

func (b OutputResult) encode() proto.Message {
	p := &troupev1.OutputResult{Feed: b.Feed, Next: b.Next, More: b.More, Ended: b.Ended, Lost: b.Lost, StdoutCut: b.StdoutCut, StderrCut: b.StderrCut}
	for _, h := range b.Entries {
		p.Entries = append(p.Entries, &troupev1.Happening{
			Kind: h.Kind, At: nanos(h.At), Data: h.Data, Chunk: h.Chunk, Fraction: h.Fraction, Level: h.Level, Message: h.Message,
		})
	}
	return p
}

func cancelFromProto(p *troupev1.Cancel) Body {
	return Cancel{By: p.GetBy(), Pool: p.GetPool(), Slot: messages.Slot(p.GetSlot())}
}

func probeWorkerFromProto(p *troupev1.ProbeWorker) Body {
	return ProbeWorker{Pool: p.GetPool(), Slot: messages.Slot(p.GetSlot()), Probe: p.GetProbe(), By: p.GetBy(), Runs: p.GetRuns()}
}

func outputFromProto(p *troupev1.OutputResult) (Body, error) {
	if n := len(p.GetEntries()); n > entriesMax {
		return nil, fmt.Errorf("it has %d entries, the limit is %d", n, entriesMax)
	}
	b := OutputResult{Feed: p.GetFeed(), Next: p.GetNext(), More: p.GetMore(), Ended: p.GetEnded(), Lost: p.GetLost(), StdoutCut: p.GetStdoutCut(), StderrCut: p.GetStderrCut()}
	for _, h := range p.GetEntries() {
		b.Entries = append(b.Entries, RunEvent{
			Kind: h.GetKind(), At: fromNanos(h.GetAt()), Data: h.GetData(), Chunk: h.GetChunk(), Fraction: h.GetFraction(),
			Level: h.GetLevel(), Message: h.GetMessage(),
		})
	}
	return b, nil
}

func (b Cancel) check(p messages.Placement) error {
	if p.Execution.IsZero() {
		return errors.New("a cancel names no execution")
	}
	if b.Slot < 0 {
		return fmt.Errorf("a cancel names slot %d, want one from 0", b.Slot)
	}
	return errors.Join(checkText("by", b.By), checkText("pool", b.Pool))
}

func (b Drain) check(messages.Placement) error { return checkText("by", b.By) }

func (b ProbeWorker) check(messages.Placement) error {
	if b.Slot < 0 {
		return fmt.Errorf("slot %d is no worker: want a slot from 0", b.Slot)
	}
	return errors.Join(checkPool(b.Pool), checkText("by", b.By))
}

func (b Workers) check(messages.Placement) error {
	return errors.Join(checkText("pool", b.Pool), checkPlace(b.After))
}

func (b Pools) check(messages.Placement) error {
	return errors.Join(checkText("pool", b.Pool), checkPlace(b.After))
}

func (b Readings) check(messages.Placement) error { return checkPlace(b.After) }

func (b Cells) check(messages.Placement) error { return checkPlace(b.After) }

func (b Sights) check(messages.Placement) error { return checkPlace(b.After) }

func (b Views) check(messages.Placement) error { return checkPlace(b.Next) }

func (b Output) check(p messages.Placement) error {
	if p.Execution.IsZero() {
		return errors.New("a question for output names no execution")
	}
	return nil
}

func (b OutputResult) check(messages.Placement) error {
	if len(b.Entries) > entriesMax {
		return fmt.Errorf("it has %d entries, the limit is %d", len(b.Entries), entriesMax)
	}
	size := 0
	for i := range b.Entries {
		if size += b.Entries[i].Size(); size > OutputMax && i > 0 || size > RunEventMax {
			return fmt.Errorf("its entries are larger than %d bytes", OutputMax)
		}
		if f := b.Entries[i].Fraction; math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("entry %d has the progress %v, want a number", i, f)
		}
	}
	return nil
}

// placeMax bounds where a page begins, in bytes: a pool's name and a slot.
const placeMax = textMax + 16

func checkPlace(place string) error {
	if len(place) > placeMax {
		return fmt.Errorf("a page begins behind %d bytes, the limit is %d", len(place), placeMax)
	}
	return nil
}
