package wire

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/messages"
	troupev1 "github.com/troupe-run/troupe/proto/troupe/v1"
)

// EntriesMax bounds the entries of one PoolReport, so that the longest texts still fit into PayloadMax.
const EntriesMax = 400

// PoolReport tells a pool's router of the sender's share of the pool; see the contract. A whole report may take several
// messages, of which First and Last mark the ends.
type PoolReport struct {
	Pool        string
	Epoch       int64
	Number      uint64
	First, Last bool
	Serves      string
	Wake        bool
	Entries     []PoolEntry
}

// PoolReportResult answers a PoolReport.
type PoolReportResult struct {
	Refused string // why nothing of it was taken; empty: all of it was
	Again   bool   // it may be taken later, or as a whole report
	Waiting int32  // executions of the pool that wait for a worker
}

// EndSession tells a worker to drop the state of a session up to an epoch.
type EndSession struct {
	Pool    string
	Slot    messages.Slot
	Session string
	Epoch   int64
}

// WhyWaiting asks the router of a pool why an execution is not running.
type WhyWaiting struct {
	Pool      string
	Execution messages.ExecutionID
	Priority  int32
	Seq       int64
}

// WhyWaitingResult answers it: the reason's word and sentence, or why there is none, and its place in line. Of an older release Line is
// empty.
type WhyWaitingResult struct {
	Reason, Message, Refused string
	Ahead                    int64
	AtLeast                  bool
	Line                     string
}

func (PoolReport) kind() troupev1.Kind       { return troupev1.Kind_KIND_POOL_REPORT }
func (PoolReportResult) kind() troupev1.Kind { return troupev1.Kind_KIND_POOL_REPORT_RESULT }
func (EndSession) kind() troupev1.Kind       { return troupev1.Kind_KIND_END_SESSION }
func (WhyWaiting) kind() troupev1.Kind       { return troupev1.Kind_KIND_WHY_WAITING }
func (WhyWaitingResult) kind() troupev1.Kind { return troupev1.Kind_KIND_WHY_WAITING_RESULT }

func (b PoolReport) encode() proto.Message {
	entries := make([]*troupev1.PoolEntry, len(b.Entries))
	for i, e := range b.Entries {
		entries[i] = e.encode()
	}
	return &troupev1.PoolReport{
		Pool: b.Pool, Epoch: b.Epoch, Number: b.Number, First: b.First, Last: b.Last, Serves: b.Serves, Wake: b.Wake,
		Entries: entries,
	}
}

func (b PoolReportResult) encode() proto.Message {
	return &troupev1.PoolReportResult{Refused: b.Refused, Again: b.Again, Waiting: b.Waiting}
}

func (b EndSession) encode() proto.Message {
	return &troupev1.EndSession{Pool: b.Pool, Slot: int32(b.Slot), Session: b.Session, Epoch: b.Epoch}
}

func (b WhyWaiting) encode() proto.Message {
	return &troupev1.WhyWaiting{Pool: b.Pool, Execution: idBytes(b.Execution), Priority: b.Priority, Seq: b.Seq}
}

func (b WhyWaitingResult) encode() proto.Message {
	return &troupev1.WhyWaitingResult{Reason: b.Reason, Message: b.Message, Refused: b.Refused, Ahead: b.Ahead, AtLeast: b.AtLeast, Line: b.Line}
}

func reportFromProto(p *troupev1.PoolReport) (Body, error) {
	// The payload's own bound (PayloadMax) limits how many entries can have been parsed before this is asked.
	if n := len(p.GetEntries()); n > EntriesMax {
		return nil, fmt.Errorf("it has %d entries, the limit is %d", n, EntriesMax)
	}
	b := PoolReport{
		Pool: p.GetPool(), Epoch: p.GetEpoch(), Number: p.GetNumber(), First: p.GetFirst(), Last: p.GetLast(),
		Serves: p.GetServes(), Wake: p.GetWake(),
	}
	for i, entry := range p.GetEntries() {
		e, err := entryFromProto(entry)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
		b.Entries = append(b.Entries, e)
	}
	return b, nil
}

func whyFromProto(p *troupev1.WhyWaiting) (Body, error) {
	id, err := parseID[messages.ExecutionID]("execution", p.GetExecution())
	return WhyWaiting{Pool: p.GetPool(), Execution: id, Priority: p.GetPriority(), Seq: p.GetSeq()}, err
}

func (b PoolReport) check(messages.Placement) error {
	switch {
	case len(b.Entries) > EntriesMax:
		return fmt.Errorf("a report has %d entries, the limit is %d", len(b.Entries), EntriesMax)
	case b.Epoch < 1:
		return fmt.Errorf("a report names term %d, want one from 1", b.Epoch)
	case b.Number == 0:
		return errors.New("a report has number 0, want one from 1")
	}
	for i, e := range b.Entries {
		if err := e.check(); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
	}
	return errors.Join(checkPool(b.Pool), checkText("serves", b.Serves))
}

func (b PoolReportResult) check(messages.Placement) error {
	if b.Waiting < 0 {
		return fmt.Errorf("%d executions wait, want none or more", b.Waiting)
	}
	return checkText("refused", b.Refused)
}

func (b EndSession) check(messages.Placement) error {
	if b.Slot < 0 || b.Epoch < 1 || b.Session == "" {
		return fmt.Errorf("session %q epoch %d on slot %d: want a session, an epoch from 1 and a slot from 0", b.Session, b.Epoch, b.Slot)
	}
	return errors.Join(checkPool(b.Pool), checkText("session", b.Session))
}

func (b WhyWaiting) check(messages.Placement) error {
	if b.Execution.IsZero() {
		return errors.New("it names no execution")
	}
	return checkPool(b.Pool)
}

func (b WhyWaitingResult) check(messages.Placement) error {
	if b.Ahead < 0 {
		return fmt.Errorf("%d are before it, want 0 or more", b.Ahead)
	}
	return errors.Join(checkText("reason", b.Reason), checkText("message", b.Message), checkText("refused", b.Refused), checkText("line", b.Line))
}
