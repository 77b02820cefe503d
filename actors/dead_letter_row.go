package actors

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/store"
)

// headersMax bounds what is kept of a message's headers and history, in bytes; the server's frames bound what comes.
const headersMax = 64 << 10

// deadLetterRow fills the forensic record of a message with what the message itself says: its headers, its death, and its body
// unless the record has one. No more of it is kept than a store would.
func deadLetterRow(dead broker.Delivery, row store.DeadLetter) store.DeadLetter {
	if row.Body == nil {
		row.Body = dead.Body
	}
	row = store.CutBody(row)
	row.Queue = dead.Queue
	if len(dead.Deaths) > 0 {
		row.DiedAt, row.Queue = dead.Deaths[0].At, dead.Deaths[0].Queue
	}
	if headers, err := json.Marshal(struct {
		Headers map[string]string `json:"headers,omitempty"`
		Deaths  []broker.Death    `json:"deaths,omitempty"`
	}{dead.Headers, dead.Deaths}); err == nil && len(headers) <= headersMax {
		row.Headers = headers
	} else {
		row.Headers = json.RawMessage(`{"headers":{"troupe-note":"they were too large to be kept"}}`)
	}
	return row
}

// deathKey names one death of a message as far as it is concerned with what, so that a redelivery finds the record that
// was made before. The same body may die many times; the moment of the death and its count tell these apart.
func deathKey(dead broker.Delivery, row store.DeadLetter, what string) string {
	h := sha256.New()
	for _, part := range []string{what, row.Reason, row.Queue, dead.ID} {
		h.Write(strconv.AppendQuote(nil, part))
	}
	h.Write(dead.Body)
	if len(dead.Deaths) > 0 {
		d := &dead.Deaths[0]
		h.Write(strconv.AppendInt(nil, d.At.UnixNano(), 10))
		h.Write(strconv.AppendInt([]byte{'/'}, int64(d.Count), 10))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
