package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
)

// LetterBodyMax bounds the body that a dead letter keeps, in bytes. Brokers bound a message in megabytes, if at all.
const LetterBodyMax = 64 << 10

// CutBody returns the record with no more of its body than is kept; its whole size and hash are noted. What is cut already
// stays as it is. The record shares nothing with a body that was cut, so that one can be freed.
func CutBody(d DeadLetter) DeadLetter {
	if d.BodySize == 0 {
		d.BodySize = int64(len(d.Body))
	}
	if len(d.Body) > LetterBodyMax {
		if d.BodySHA256 == "" {
			sum := sha256.Sum256(d.Body)
			d.BodySHA256 = hex.EncodeToString(sum[:])
		}
		d.Body = bytes.Clone(d.Body[:LetterBodyMax])
	}
	d.BodyCut = d.BodySize > LetterBodyMax
	return d
}
