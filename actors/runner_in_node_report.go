package actors

import (
	"encoding/json"
	"time"

	"github.com/troupe-run/troupe/messages"
)

var _ messages.Reporter = (*handlerRun)(nil)

// Progress implements messages.Reporter.
func (r *handlerRun) Progress(fraction float64, message string) {
	r.report(messages.RunEvent{Kind: "progress", At: time.Now(), Fraction: fraction, Message: r.masks.Text(message)})
}

// Chunk implements messages.Reporter.
func (r *handlerRun) Chunk(data json.RawMessage) {
	if p := messages.CheckJSON(data); p != nil {
		err := messages.NotJSON("chunk", p)
		r.refused.CompareAndSwap(nil, err)
		r.Log("error", err.Message)
		return
	}
	r.report(messages.RunEvent{Kind: "chunk", At: time.Now(), Chunk: data})
}

// Log implements messages.Reporter.
func (r *handlerRun) Log(level, message string) {
	r.report(messages.RunEvent{Kind: "log", At: time.Now(), Level: level, Message: r.masks.Text(message)})
}

// report shows an event of the run. What comes after the run's end, from a handler that was left behind or from a goroutine
// that it left, concerns nobody; one that meets the end closes the feed that it may have begun anew.
func (r *handlerRun) report(e messages.RunEvent) {
	if r.told.Load() {
		return
	}
	first := r.feeds.Add(r.id, e)
	if over := r.told.Load(); over && first {
		r.feeds.Close(r.id)
	} else if !over && r.stalls {
		r.post(&sign{})
	}
}
