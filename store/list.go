package store

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Filter says which executions a list has. Those of one field, and of one label's name, are alternatives; the fields, and labels of several
// names, hold together. A field has few values: a list by several actions or sessions merges one walk of an index for each.
type Filter struct {
	Statuses []messages.Status
	Actions  []string
	Pools    []string
	Sessions []string
	Workers  []string
	Labels   [][2]string     // name, value
	Errors   []messages.Code // of an execution that ended without a result
	Texts    []string        // in such an error as it is stored, within its first ErrorSearched bytes; ASCII letters match in either case
	// ParametersOf are actions in whose parameters the Texts are searched, too, also those of Not: in the first ParametersSearched bytes, where
	// they have no more than ParametersMax.
	ParametersOf []string
	Keys         []string  // idempotency keys, whoever owns them
	IDPrefixes   []string  // the first hexadecimal digits of the id, without dashes
	Was          []Was     // what befell it
	From, To     time.Time // requested at From or later, and before To
	// EndedFrom and EndedTo have only what ended, at EndedFrom or later, and before EndedTo. Where From is zero, a list with EndedFrom looks
	// at what was requested up to EndedLife before it.
	EndedFrom, EndedTo time.Time
	Not                Exclusion

	Oldest bool  // oldest first
	Before int64 // only seqs below it: the cursor of a list from the newest; 0: all
	After  int64 // only seqs above it: the cursor of a list from the oldest
	Limit  int   // 1 to 1000; 0: 100
	// Until is when a page ends short at the latest, for a walk of several pages, which has one time for all of them. Zero: each page may
	// look for its own time.
	Until time.Time
}

// Was is what a ledger counts of executions beside their status, and a list can be asked for.
type Was string

// What may have befallen an execution.
const (
	WasRetry       Was = "retry"       // it is the retry of another one
	WasInterrupted Was = "interrupted" // the end of a worker interrupted it at least once
	WasTakenBack   Was = "taken_back"  // it was taken back from a worker that did not claim, and was not claimed since
	WasStateLost   Was = "state_lost"  // it was told that its session's state was lost
)

// EachWas lists them.
func EachWas() []Was { return []Was{WasRetry, WasInterrupted, WasTakenBack, WasStateLost} }

// Exclusion says which executions a list does not have: those that have any of these values.
type Exclusion struct {
	Statuses   []messages.Status
	Actions    []string
	Pools      []string
	Sessions   []string
	Workers    []string
	Labels     [][2]string
	Errors     []messages.Code
	Texts      []string
	Keys       []string
	IDPrefixes []string
	Was        []Was
}

// ListWalk bounds the executions that one page of a list looks at, whether they match or not.
const ListWalk = 20_000

// EndedLife is how long before its end the request of an execution may be, where a list bounds its end and not its request. No index has
// the ends of executions in their order.
const EndedLife = 24 * time.Hour

// ListFor bounds how long one page of a list looks at executions. Its parts are sized so that the last one ends about then.
const ListFor = 60 * time.Millisecond

// textTimes is how many times as long a page looks for a text, because each error is read for it.
const textTimes = 3

// End is when a page that begins now ends short, if a page without a text may look for so long.
func (f *Filter) End(now time.Time, listFor time.Duration) time.Time {
	if len(f.Texts)+len(f.Not.Texts) > 0 {
		listFor *= textTimes
	}
	if end := now.Add(listFor); f.Until.IsZero() || end.Before(f.Until) {
		return end
	}
	return f.Until
}

// Parts sizes the parts of a page's walk, so that the walk ends about when its time does: what an execution takes to look at is known only
// when some have been looked at, and differs by more than ten times.
type Parts struct {
	End   time.Time
	Most  int // executions of a part
	Times int // how many times as large as the part before a part may be
}

// Bounds of a walk in parts.
const (
	PartsLeast = 500 // executions that a page looks at, however long that takes
	partLeast  = 50  // executions of a part that begins for the rest of the time
)

// Next returns the size of the part that begins now, after one of size executions that took so long. Zero: the walk, which has looked at
// walked executions, ends.
func (p *Parts) Next(walked, size int, took time.Duration, now time.Time) int {
	grown := min(p.Times*size, p.Most)
	fit := float64(size) * float64(p.End.Sub(now)) / float64(max(took, 1))
	least := PartsLeast - walked
	switch {
	case fit >= float64(grown):
		return grown
	case least > 0:
		return min(grown, max(int(fit), least))
	case fit < partLeast:
		return 0
	}
	return int(fit)
}

// Page is a page of a list.
type Page struct {
	Executions []messages.Execution
	// Next continues the list; 0: this was the last page. A page may be short, or even empty, and have a Next.
	Next     int64
	More     More
	Searched Searched
}

// More says how a page ended.
type More string

// How a page ends.
const (
	MoreFound      More = "found"      // it is full; more may follow
	MoreUnsearched More = "unsearched" // it met the bound of a walk
	MoreEnd        More = "end"        // nothing follows
)

// Searched is how far a page has looked. Its zero value says nothing, as at the end of a list.
type Searched struct {
	At     time.Time // when the last execution that it looked at was requested
	Seq    int64     // of that one
	Walked int       // how many it looked at; 0: not counted
}

// Drive is the index that a list walks.
type Drive uint8

// The indexes. The others of a filter's fields are checked on each execution.
const (
	DriveAll Drive = iota
	DriveKey
	DriveID
	DriveLabel
	DriveSession
	DriveStatuses
	DriveAction
)

// unusual are the statuses of executions that ended without a result.
var unusual = []messages.Status{messages.Failed, messages.TimedOut, messages.Cancelled, messages.Abandoned}

// Each is a field's values in order, each once, as a walk of an index for each value needs them.
func Each[T cmp.Ordered](values []T) []T { return slices.Compact(slices.Sorted(slices.Values(values))) }

// Walked are the statuses whose indexes a list by status walks.
func (f *Filter) Walked() []messages.Status {
	if len(f.Statuses) > 0 {
		return Each(f.Statuses)
	}
	if len(f.Errors)+len(f.Texts) > 0 {
		return unusual
	}
	return nil
}

// Drive chooses the index. narrow says that few ids have the prefix.
func (f *Filter) Drive(narrow bool) Drive {
	walked := f.Walked()
	switch {
	case len(f.Keys) > 0:
		return DriveKey
	case len(f.IDPrefixes) > 0 && narrow:
		return DriveID
	case len(f.Labels) > 0:
		return DriveLabel
	case len(f.Sessions) > 0:
		return DriveSession
	case len(walked) > 0 && !slices.Contains(walked, messages.Completed):
		return DriveStatuses
	case len(f.Actions) > 0:
		return DriveAction
	}
	return DriveAll
}

// Ends reports whether a list is of executions that ended in a time.
func (f *Filter) Ends() bool { return !f.EndedFrom.IsZero() || !f.EndedTo.IsZero() }

// Requested returns the time of the requests that a list looks at, from from on and before to; zero: without an end. What ended before a time
// was requested before it.
func (f *Filter) Requested() (from, to time.Time) {
	from, to = f.From, f.To
	if from.IsZero() && !f.EndedFrom.IsZero() {
		from = f.EndedFrom.Add(-EndedLife)
	}
	if to.IsZero() || !f.EndedTo.IsZero() && f.EndedTo.Before(to) {
		to = f.EndedTo
	}
	return from, to
}

// Alone reports whether the index answers the whole filter, so that a walk is no longer than a page.
func (f *Filter) Alone(drive Drive) bool {
	if len(f.Errors)+len(f.Texts)+len(f.IDPrefixes)+len(f.Was) > 0 || !f.From.IsZero() || !f.To.IsZero() || f.Ends() || !f.Not.isZero() {
		return false
	}
	if f.PoolWaits() {
		return drive == DriveStatuses
	}
	n := len(f.LabelSets())
	for _, set := range []bool{len(f.Keys) > 0, len(f.Sessions) > 0, len(f.Actions) > 0, len(f.Pools) > 0, len(f.Workers) > 0, len(f.Statuses) > 0} {
		if set {
			n++
		}
	}
	return n == 0 || n == 1 && drive != DriveAll
}

// PoolWaits reports whether the list is of some pools' executions that have not ended: the pool leads the indexes of both stages.
func (f *Filter) PoolWaits() bool {
	return len(f.Pools) > 0 && len(f.Statuses) > 0 && !slices.ContainsFunc(f.Statuses, messages.Status.Terminal) &&
		len(f.Labels)+len(f.Sessions)+len(f.Actions)+len(f.Workers)+len(f.Keys) == 0
}

func (x *Exclusion) isZero() bool {
	return len(x.Statuses)+len(x.Actions)+len(x.Pools)+len(x.Errors) == 0 && !x.Deep()
}

// Deep reports whether the exclusion names what only an execution itself says, and no count by minute has.
func (x *Exclusion) Deep() bool {
	return len(x.Sessions)+len(x.Workers)+len(x.Labels)+len(x.Texts)+len(x.Keys)+len(x.IDPrefixes)+len(x.Was) > 0
}

// LabelSet are the values of one label that a list has.
type LabelSet struct {
	Name   string
	Values []string
}

// LabelSets are the filter's labels by name. An execution has one value of a label.
func (f *Filter) LabelSets() []LabelSet { return labelSets(f.Labels) }

// LabelSets are the labels by name of which a list has none.
func (x *Exclusion) LabelSets() []LabelSet { return labelSets(x.Labels) }

// labelSets are labels by name, in the order of the first of each.
func labelSets(labels [][2]string) (sets []LabelSet) {
	for _, label := range labels {
		at := slices.IndexFunc(sets, func(s LabelSet) bool { return s.Name == label[0] })
		if at < 0 {
			at, sets = len(sets), append(sets, LabelSet{Name: label[0]})
		}
		sets[at].Values = append(sets[at].Values, label[1])
	}
	return sets
}

// Labelled reports whether an execution with the labels can be in the list.
func (f *Filter) Labelled(labels map[string]string) bool {
	for _, set := range f.LabelSets() {
		if value, has := labels[set.Name]; !has || !slices.Contains(set.Values, value) {
			return false
		}
	}
	return !slices.ContainsFunc(f.Not.Labels, func(not [2]string) bool { value, has := labels[not[0]]; return has && value == not[1] })
}

// IDRange is the first and the last of some ids.
type IDRange [2]messages.ExecutionID

// noIDs is a range without ids.
var noIDs = IDRange{{0: 1}, {}}

// IDRanges are the ids with one of the prefixes, each id in one range. A prefix that no id has gives a range without ids.
func IDRanges(prefixes []string) (ranges []IDRange) {
	lower := make([]string, len(prefixes))
	for i, prefix := range prefixes {
		lower[i] = strings.ToLower(prefix)
	}
	var last IDRange
	for _, prefix := range Each(lower) { // one within another stands behind it
		r, ok := idRange(prefix)
		switch {
		case !ok:
			ranges = append(ranges, noIDs)
		case last == (IDRange{}) || bytes.Compare(r[0][:], last[1][:]) > 0: // else all of its ids are in the range before
			last, ranges = r, append(ranges, r)
		}
	}
	return ranges
}

// IsIDPrefix reports whether an id can begin so.
func IsIDPrefix(prefix string) bool {
	_, ok := idRange(prefix)
	return ok
}

func idRange(prefix string) (r IDRange, ok bool) {
	digits := len(r[0]) * 2
	if len(prefix) > digits {
		return r, false
	}
	low, errLow := hex.DecodeString(prefix + strings.Repeat("0", digits-len(prefix)))
	high, errHigh := hex.DecodeString(prefix + strings.Repeat("f", digits-len(prefix)))
	if errLow != nil || errHigh != nil {
		return r, false
	}
	copy(r[0][:], low)
	copy(r[1][:], high)
	return r, true
}

// ErrorBegins returns the first bytes of each stored error with the code.
func ErrorBegins(code messages.Code) []byte {
	text, err := json.Marshal(code)
	if err != nil { // a text always encodes
		return nil
	}
	return append([]byte(`{"code":`), text...)
}

// ErrorSearched bounds the bytes of an error that a search for a text looks at.
const ErrorSearched = 4096

// Bounds of a search for a text in parameters.
const (
	ParametersSearched = 4096     // bytes that it looks at
	ParametersMax      = 64 << 10 // bytes of parameters; longer ones are not read
)

// ErrorHolds returns the bytes of a text as they stand in stored JSON.
func ErrorHolds(text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil { // a text always encodes
		return nil
	}
	return quoted[1 : len(quoted)-1]
}

// Passed completes a page: how it ended, and where the next one begins. walked is the number of executions that were looked at, and at and
// seq are of the last one of them.
func (p *Page) Passed(limit, walked, walkMax int, seq int64, at time.Time) {
	switch {
	case len(p.Executions) > limit:
		p.Executions = p.Executions[:limit]
		last := &p.Executions[limit-1]
		p.Next, p.More, p.Searched = last.Seq, MoreFound, Searched{At: last.RequestedAt, Seq: last.Seq}
	case walked >= walkMax:
		p.Next, p.More, p.Searched = seq, MoreUnsearched, Searched{At: at, Seq: seq, Walked: walked}
	default:
		p.More, p.Searched = MoreEnd, Searched{Walked: walked}
	}
}
