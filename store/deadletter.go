package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
)

// DeadLetterBodyMax bounds the stored body of a dead letter, in bytes. Brokers bound a message in megabytes, if at all.
const DeadLetterBodyMax = 64 << 10

// CutBody returns the record with a body of at most DeadLetterBodyMax bytes and notes the whole size and hash. A record
// that was cut before does not change. The record shares no memory with the original body, so that can be freed.
func CutBody(d DeadLetter) DeadLetter {
	if d.BodySize == 0 {
		d.BodySize = int64(len(d.Body))
	}
	if len(d.Body) > DeadLetterBodyMax {
		if d.BodySHA256 == "" {
			sum := sha256.Sum256(d.Body)
			d.BodySHA256 = hex.EncodeToString(sum[:])
		}
		d.Body = bytes.Clone(d.Body[:DeadLetterBodyMax])
	}
	d.BodyCut = d.BodySize > DeadLetterBodyMax
	return d
}
