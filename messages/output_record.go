package messages

import (
	"bytes"
	"encoding/json"
	"math"
	"time"
)

// RecordMax bounds an execution's record of output, in bytes.
const RecordMax = 1 << 20

// mergeTime is within which bytes of one stream are recorded as if they came at once.
const mergeTime = 10 * time.Millisecond

// OutputRecord makes the record that is stored with an execution's output: what the run said, in order, with times. Of standard
// output and standard error it has how many bytes came when, because the bytes themselves are in Output. It is JSON, one entry a
// line, so that who reads the store by other means can read it too. The zero value is an empty record. It is for use by one goroutine.
type OutputRecord struct {
	text []byte
	last recordEntry // of a stream, and not in text yet: more of it may follow at once
	full bool
}

// recordEntry is a line of a record.
type recordEntry struct {
	Kind     string          `json:"kind"` // of RunEvent; cut: more was said than the record has
	At       int64           `json:"at"`   // microseconds since 1970
	Bytes    int             `json:"bytes,omitempty"`
	Chunk    json.RawMessage `json:"chunk,omitempty"`
	Fraction *float64        `json:"fraction,omitempty"`
	Level    string          `json:"level,omitempty"`
	Message  string          `json:"message,omitempty"`
}

const kindCut = "cut"

func isStream(kind string) bool { return kind == "stdout" || kind == "stderr" }

// Add appends what the run has said.
func (r *OutputRecord) Add(e *RunEvent) {
	if r.full {
		return
	}
	entry := recordEntry{Kind: e.Kind, At: e.At.UnixMicro(), Bytes: len(e.Data), Chunk: e.Chunk, Level: e.Level, Message: e.Message}
	if e.Kind == "progress" && e.Fraction >= 0 && !math.IsInf(e.Fraction, 0) {
		entry.Fraction = &e.Fraction
	}
	if isStream(e.Kind) && e.Kind == r.last.Kind && entry.At-r.last.At < mergeTime.Microseconds() {
		r.last.Bytes += entry.Bytes
		return
	}
	r.write(&r.last)
	r.last = recordEntry{}
	if isStream(e.Kind) {
		r.last = entry
		return
	}
	r.write(&entry)
}

// write adds a line. The first that has no room is the end of the record: a later one would stand for bytes that come before it.
func (r *OutputRecord) write(entry *recordEntry) {
	if entry.Kind == "" || r.full {
		return
	}
	line, err := json.Marshal(entry)
	if err != nil { // a chunk that is no JSON
		line, _ = json.Marshal(&recordEntry{Kind: "notice", At: entry.At, Message: "a " + entry.Kind + " that is no JSON"})
	}
	const roomForCut = 64
	if len(r.text)+len(line)+1 > RecordMax-roomForCut {
		r.full = true
		line, _ = json.Marshal(&recordEntry{Kind: kindCut, At: entry.At})
	}
	r.text = append(append(r.text, line...), '\n')
}

// Bytes returns the record so far; nil: nothing was said.
func (r *OutputRecord) Bytes() []byte {
	whole := OutputRecord{text: bytes.Clone(r.text), full: r.full}
	whole.write(&r.last)
	return whole.text
}

// Replay passes on what the run has said, as it was while it ran: in order and with its times. Of an execution of before there were
// records, and of what was said when its record was full, the order and the times are not known: that comes last, with the last time that is.
// What was not kept is told by an event of the kind notice. It returns the first error of each.
func (o Output) Replay(each func(RunEvent) error) error {
	p := replay{stdout: o.Stdout, stderr: o.Stderr, each: each}
	for line := range bytes.Lines(o.Record) {
		var entry recordEntry
		if json.Unmarshal(line, &entry) != nil || entry.Kind == kindCut {
			p.pass(RunEvent{Kind: "notice", At: p.at, Message: "more was said than is kept in order"})
			break
		}
		p.entry(&entry)
	}
	p.pass(RunEvent{Kind: "stdout", At: p.at, Data: p.stdout})
	p.pass(RunEvent{Kind: "stderr", At: p.at, Data: p.stderr})
	p.cut("stdout", o.StdoutCut)
	p.cut("stderr", o.ErrCut)
	return p.err
}

// replay is what is left of an output that is passed on.
type replay struct {
	stdout, stderr []byte
	at             time.Time // of the last entry
	each           func(RunEvent) error
	err            error
}

func (p *replay) entry(entry *recordEntry) {
	p.at = time.UnixMicro(entry.At)
	e := RunEvent{Kind: entry.Kind, At: p.at, Chunk: entry.Chunk, Fraction: -1, Level: entry.Level, Message: entry.Message}
	if entry.Fraction != nil {
		e.Fraction = *entry.Fraction
	}
	switch entry.Kind {
	case "stdout":
		e.Data, p.stdout = cutAt(p.stdout, entry.Bytes)
	case "stderr":
		e.Data, p.stderr = cutAt(p.stderr, entry.Bytes)
	}
	p.pass(e)
}

// pass passes an event on, unless it is of a stream and has no bytes.
func (p *replay) pass(e RunEvent) {
	if p.err == nil && (len(e.Data) > 0 || !isStream(e.Kind)) {
		p.err = p.each(e)
	}
}

func (p *replay) cut(stream string, cut bool) {
	if cut {
		p.pass(RunEvent{Kind: "notice", At: p.at, Message: "more was written to " + stream + " than is kept (limits.output)"})
	}
}

func cutAt(data []byte, n int) (first, rest []byte) {
	n = min(max(n, 0), len(data))
	return data[:n], data[n:]
}
