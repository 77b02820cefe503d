package messages

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync"
	"time"
)

// uuid is the 16 bytes of an RFC 9562 UUID.
type uuid [16]byte

// uuidClock makes the times of this process's UUIDs grow, so that they sort by their creation.
var uuidClock struct {
	mu   sync.Mutex
	last int64
}

// uuidTime is the time in milliseconds, and the part of the millisecond in 12 bits.
func uuidTime() (milli, part int64) {
	uuidClock.mu.Lock()
	defer uuidClock.mu.Unlock()
	nano := time.Now().UnixNano()
	milli, part = nano/1e6, nano%1e6>>8
	uuidClock.last = max(uuidClock.last+1, milli<<12|part)
	return uuidClock.last >> 12, uuidClock.last & 0xfff
}

// newUUID returns a fresh UUIDv7.
func newUUID() (u uuid) {
	_, _ = rand.Read(u[:]) // it never fails: the process ends instead
	milli, part := uuidTime()
	for i := range 6 {
		u[i] = byte(milli >> (40 - 8*i))
	}
	u[6], u[7] = 0x70|byte(part>>8), byte(part)
	u[8] = 0x80 | u[8]&0x3f
	return u
}

// The canonical form has 36 characters: groups of hex digits, with dashes at these places.
const uuidLen = 36

var uuidDashes = [...]int{8, 13, 18, 23}

var errUUID = errors.New("no UUID")

// parseUUID reads the canonical form.
func parseUUID(s string) (u uuid, err error) {
	if len(s) != uuidLen {
		return u, errUUID
	}
	digits := make([]byte, 0, uuidLen)
	from := 0
	for _, dash := range uuidDashes {
		if s[dash] != '-' {
			return u, errUUID
		}
		digits = append(digits, s[from:dash]...)
		from = dash + 1
	}
	if _, err := hex.Decode(u[:], append(digits, s[from:]...)); err != nil {
		return uuid{}, errUUID
	}
	return u, nil
}

// text is the canonical form.
func (u uuid) text() (b [uuidLen]byte) {
	hex.Encode(b[:8], u[:4])
	hex.Encode(b[9:13], u[4:6])
	hex.Encode(b[14:18], u[6:8])
	hex.Encode(b[19:23], u[8:10])
	hex.Encode(b[24:], u[10:])
	for _, dash := range uuidDashes {
		b[dash] = '-'
	}
	return b
}

func (u uuid) string() string {
	b := u.text()
	return string(b[:])
}

func (u uuid) marshal() ([]byte, error) {
	b := u.text()
	return b[:], nil
}
