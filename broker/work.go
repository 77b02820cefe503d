package broker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/troupe-run/troupe/messages"
)

// Errors of a message body. Neither goes away by waiting, so who meets one quarantines the message.
var (
	ErrMalformed = errors.New("malformed message body")
	ErrVersion   = errors.New("unknown version of message body")
)

// Bounds on a message body.
const (
	WorkVersion   = 1
	PlacementsMax = 100      // of one message
	WorkMax       = 32 << 10 // bytes
)

// Work is what a message on a worker's queue carries: identities, never the work itself, which stands in the store.
type Work struct {
	Worker     messages.WorkerKey
	Placements []messages.Placement // 1 to PlacementsMax, in the order in which to run them
}

// Encode writes the body of a message:
//
//	{"v":1,"worker":{"incarnation":"…","pool":"core","slot":0},"placements":[{"execution":"…","attempt":1}]}
//
// Work that Decode would refuse is ErrMalformed.
func (w Work) Encode() ([]byte, error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	b := make([]byte, 0, 128+len(w.Worker.Pool)+80*len(w.Placements))
	b = append(b, `{"v":`+strconv.Itoa(WorkVersion)+`,"worker":{"incarnation":"`...)
	b = append(b, w.Worker.Incarnation.String()...)
	b = append(b, `","pool":"`...)
	b = append(b, w.Worker.Pool...) // plain characters only, see check
	b = append(b, `","slot":`...)
	b = strconv.AppendInt(b, int64(w.Worker.Slot), 10)
	b = append(b, `},"placements":[`...)
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
	return append(b, "]}"...), nil
}

// DecodeWork reads a body. The error is ErrVersion for a version that this binary does not know and ErrMalformed for
// anything else that is wrong, and says what.
func DecodeWork(body []byte) (Work, error) {
	if len(body) > WorkMax {
		return Work{}, malformed("%d bytes, at most %d are allowed", len(body), WorkMax)
	}
	w, err := decodeWork1(body)
	if err == nil {
		return w, nil
	}
	// Only a body that is wrong is read a second time, to tell another version from a malformed one.
	var head struct {
		V *int `json:"v"`
	}
	if wrong := json.Unmarshal(body, &head); wrong != nil {
		return Work{}, malformed("%v", wrong)
	}
	switch {
	case head.V == nil:
		return Work{}, malformed("no version: v is missing")
	case *head.V != WorkVersion:
		return Work{}, fmt.Errorf("%w: version %d, this binary knows %d", ErrVersion, *head.V, WorkVersion)
	}
	return Work{}, err
}

func decodeWork1(body []byte) (Work, error) {
	var raw struct {
		V          int                  `json:"v"`
		Worker     messages.WorkerKey   `json:"worker"`
		Placements []messages.Placement `json:"placements"`
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&raw); err != nil {
		return Work{}, malformed("%v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Work{}, malformed("something follows the object")
	}
	if raw.V != WorkVersion {
		return Work{}, malformed("version %d", raw.V)
	}
	w := Work{Worker: raw.Worker, Placements: raw.Placements}
	return w, w.check()
}

func (w Work) check() error {
	switch {
	case w.Worker.Incarnation.IsZero():
		return malformed("no incarnation")
	case w.Worker.Pool == "":
		return malformed("no pool")
	case w.Worker.Slot < 0:
		return malformed("slot %d is negative", w.Worker.Slot)
	case len(w.Placements) == 0:
		return malformed("no placements")
	case len(w.Placements) > PlacementsMax:
		return malformed("%d placements, at most %d are allowed", len(w.Placements), PlacementsMax)
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

// checkPool keeps the pool's name to characters that need no escaping, in a body or in the name of a queue.
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
