package broker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Errors of a message body. A retry does not help, so the consumer quarantines the message.
var (
	ErrMalformed = errors.New("malformed message body")
	ErrVersion   = errors.New("unknown version of message body")
)

// Bounds on a message body.
const (
	WorkVersion   = 2
	PlacementsMax = 100      // in one message
	WorkMax       = 32 << 10 // bytes
)

// Work is one worker's part of a message. It holds identities; the work itself is in the store. A message on a queue
// that several workers share holds the work of several.
type Work struct {
	Worker     messages.WorkerKey
	Placements []messages.Placement // at least one, in the order in which to run them
	// Ahead means that the worker may claim the placements before it is free, because their runs are short and may be
	// repeated.
	Ahead bool
	// By is the router that hands the placements over directly: the store has none of them before their claims. Zero: it has all.
	By messages.Incarnation
	// Published and Arrived say when the message was published and came; zero: not known. They are no part of the body.
	Published, Arrived time.Time
}

// publishedHeader is the header of a message of a node that makes spans: when it was published, in microseconds since 1970.
const publishedHeader = "troupe-published"

// PublishedNow is the headers of a message that is published now by a node that makes spans.
func PublishedNow(now time.Time) map[string]string {
	return map[string]string{publishedHeader: strconv.FormatInt(now.UnixMicro(), 10)}
}

// PublishedAt is when a message was published that came at a time; zero: it does not say, or says something else than a time of the
// day before.
func (d Delivery) PublishedAt(came time.Time) time.Time {
	micros, err := strconv.ParseInt(d.Headers[publishedHeader], 10, 64)
	at := time.UnixMicro(micros)
	if err != nil || at.After(came.Add(time.Minute)) || came.Sub(at) > 24*time.Hour {
		return time.Time{}
	}
	return at
}

// Encode writes the body of a message for one worker. See EncodeWork.
func (w Work) Encode() ([]byte, error) { return EncodeWork([]Work{w}) }

// EncodeWork writes the body of a message:
//
//	{"v":2,"incarnation":"…","pool":"core","work":[{"slot":0,"ahead":true,"by":"…","placements":[{"execution":"…","attempt":1}]}]}
//
// Nodes of releases before the direct claim refuse "by"; a router sends it only to nodes whose reports say that they know it.
// All workers must belong to one pool and incarnation. For work that DecodeWork would refuse, the error is
// ErrMalformed.
func EncodeWork(all []Work) ([]byte, error) {
	if err := checkWork(all); err != nil {
		return nil, err
	}
	first := all[0].Worker
	b := make([]byte, 0, 128+len(first.Pool)+48*len(all)+80*count(all))
	b = append(b, `{"v":`+strconv.Itoa(WorkVersion)+`,"incarnation":"`...)
	b = append(b, first.Incarnation.String()...)
	b = append(b, `","pool":"`...)
	b = append(b, first.Pool...) // only plain characters, see checkPool
	b = append(b, `","work":[`...)
	for i := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = all[i].append(b)
	}
	return append(b, "]}"...), nil
}

// append writes one worker's part of a body.
func (w *Work) append(b []byte) []byte {
	b = append(b, `{"slot":`...)
	b = strconv.AppendInt(b, int64(w.Worker.Slot), 10)
	if w.Ahead {
		b = append(b, `,"ahead":true`...)
	}
	if !w.By.IsZero() {
		b = append(b, `,"by":"`...)
		b = append(b, w.By.String()...)
		b = append(b, '"')
	}
	b = append(b, `,"placements":[`...)
	for i, p := range w.Placements {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"execution":"`...)
		b = append(b, p.Execution.String()...)
		b = append(b, `","attempt":`...)
		b = strconv.AppendInt(b, int64(p.Attempt), 10)
		b = append(b, '}')
	}
	return append(b, "]}"...)
}

// DecodeWork reads a body of this version or of version 1, which has one worker. The error is ErrVersion for an unknown
// version and ErrMalformed for any other problem. Its text says what is wrong.
func DecodeWork(body []byte) ([]Work, error) {
	if len(body) > WorkMax {
		return nil, malformed("%d bytes, at most %d are allowed", len(body), WorkMax)
	}
	all, err := decodeWork2(body)
	if err == nil {
		return all, nil
	}
	// Only a body of another version, or a wrong one, is read a second time.
	var head struct {
		V *int `json:"v"`
	}
	if wrong := json.Unmarshal(body, &head); wrong != nil {
		return nil, malformed("%v", wrong)
	}
	switch {
	case head.V == nil:
		return nil, malformed("no version: v is missing")
	case *head.V == 1:
		return decodeWork1(body)
	case *head.V != WorkVersion:
		return nil, fmt.Errorf("%w: version %d, this binary knows %d", ErrVersion, *head.V, WorkVersion)
	}
	return nil, err
}

func decodeWork2(body []byte) ([]Work, error) {
	var raw struct {
		V           int                  `json:"v"`
		Incarnation messages.Incarnation `json:"incarnation"`
		Pool        string               `json:"pool"`
		Work        []struct {
			Slot       messages.Slot        `json:"slot"`
			Ahead      bool                 `json:"ahead"`
			By         messages.Incarnation `json:"by"`
			Placements []messages.Placement `json:"placements"`
		} `json:"work"`
	}
	if err := decodeStrictly(body, &raw); err != nil {
		return nil, err
	}
	if raw.V != WorkVersion {
		return nil, malformed("version %d", raw.V)
	}
	all := make([]Work, len(raw.Work))
	for i, w := range raw.Work {
		key := messages.WorkerKey{Incarnation: raw.Incarnation, Pool: raw.Pool, Slot: w.Slot}
		all[i] = Work{Worker: key, Placements: w.Placements, Ahead: w.Ahead, By: w.By}
	}
	return all, checkWork(all)
}

func decodeWork1(body []byte) ([]Work, error) {
	var raw struct {
		V          int                  `json:"v"`
		Worker     messages.WorkerKey   `json:"worker"`
		Placements []messages.Placement `json:"placements"`
	}
	if err := decodeStrictly(body, &raw); err != nil {
		return nil, err
	}
	all := []Work{{Worker: raw.Worker, Placements: raw.Placements}}
	return all, checkWork(all)
}

// decodeStrictly reads one JSON object and nothing else.
func decodeStrictly(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return malformed("%v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return malformed("something follows the object")
	}
	return nil
}

func count(all []Work) int {
	n := 0
	for i := range all {
		n += len(all[i].Placements)
	}
	return n
}

func checkWork(all []Work) error {
	if n := count(all); n > PlacementsMax {
		return malformed("%d placements, at most %d are allowed", n, PlacementsMax)
	}
	if len(all) == 0 {
		return malformed("no work")
	}
	for i := range all {
		w := &all[i]
		if w.Worker.Incarnation != all[0].Worker.Incarnation || w.Worker.Pool != all[0].Worker.Pool {
			return malformed("work for two pools or incarnations")
		}
		if err := w.check(); err != nil {
			return err
		}
	}
	return nil
}

func (w *Work) check() error {
	switch {
	case w.Worker.Incarnation.IsZero():
		return malformed("no incarnation")
	case w.Worker.Pool == "":
		return malformed("no pool")
	case w.Worker.Slot < 0:
		return malformed("slot %d is negative", w.Worker.Slot)
	case len(w.Placements) == 0:
		return malformed("no placements")
	}
	if err := checkPool(w.Worker.Pool); err != nil {
		return err
	}
	for i, p := range w.Placements {
		if p.Execution.IsZero() {
			return malformed("placement %d: no execution", i)
		}
		if p.Attempt < 1 {
			return malformed("placement %d: attempt must be positive, got %d", i, p.Attempt)
		}
	}
	return nil
}

// checkPool allows only characters in a pool's name that need no escaping in a body or in the name of a queue.
func checkPool(pool string) error {
	const poolMax = 128
	if len(pool) > poolMax {
		return malformed("the pool's name has %d bytes, at most %d are allowed", len(pool), poolMax)
	}
	for _, r := range pool {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '.', r == '-':
		default:
			return malformed("the pool's name %q holds %q", pool, r)
		}
	}
	return nil
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}
