package actors

import (
	"encoding/json"
	"time"

	"github.com/troupe-run/troupe/messages"
)

var _ messages.Reporter = (*goRun)(nil)

// Progress implements messages.Reporter.
func (r *goRun) Progress(fraction float64, message string) {
	r.report(Happening{Kind: "progress", At: time.Now(), Fraction: fraction, Message: message})
}

// Chunk implements messages.Reporter.
func (r *goRun) Chunk(data json.RawMessage) {
	r.report(Happening{Kind: "chunk", At: time.Now(), Chunk: data})
}

// Log implements messages.Reporter.
func (r *goRun) Log(level, message string) {
	r.report(Happening{Kind: "log", At: time.Now(), Level: level, Message: message})
}

// report shows an event of the run. What comes after the run's end, from a handler that was left behind or from a goroutine
// that it left, concerns nobody; one that meets the end closes the feed that it may have begun anew.
func (r *goRun) report(h Happening) {
	if r.told.Load() {
		return
	}
	r.feeds.Add(r.id, h)
	if r.told.Load() {
		r.feeds.Close(r.id)
	} else if r.stalls {
		r.post(&sign{})
	}
}
