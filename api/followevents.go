package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/api/hub"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/live"
)

// followEvents streams the execution's live events as server-sent events. Each has as its id a place in the log that the hub keeps of what the
// execution says. A reader that comes back with its last id goes on behind it; the answer is 204 where nothing follows, at which a browser
// comes back no more. The last id of all is the execution's own, which any node knows: behind a load balancer one that has all would otherwise
// be given it again by each.
func (s *server) followEvents(c *call, id messages.ExecutionID) error {
	topic, err := topicOutput(s, id.String())
	if err != nil {
		return err
	}
	last := c.r.Header.Get("Last-Event-ID")
	if last == overID(id) {
		return done(c)
	}
	topic.From, _ = live.ParsePlace(last) // one that is none is not known
	reader, err := s.join(c, []hub.Topic{topic}, "")
	if err != nil {
		return err
	}
	defer reader.Leave()
	if last != "" && reader.Over() {
		return done(c)
	}
	c.w.Header().Set("X-Accel-Buffering", "no") // a proxy hands on each event as it comes
	st := &stream{w: c.w, control: http.NewResponseController(c.w), events: true}
	if err := st.open(); err != nil {
		return err
	}
	_ = st.whileAlive(c.r.Context(), func(ctx context.Context) error {
		if err := st.said(ctx, reader, last != ""); err != nil || !reader.Over() {
			return err
		}
		return st.write([]byte("id: " + overID(id) + "\n\n")) // no event, for it has no data
	}) // its error is that the reader has left
	return nil
}

// overID is the id behind all that an execution said.
func overID(id messages.ExecutionID) string { return id.String() + ".over" }

// said writes what a reader follows until all is said, it cannot be followed any more, or ctx ends. had says that the reader of the stream
// has events of an earlier one.
func (st *stream) said(ctx context.Context, reader *hub.Reader, had bool) error {
	for {
		select {
		case <-reader.Ready():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for _, e := range reader.Said() {
			if e.Problem != nil {
				return st.send("error", form.ErrorBody{Error: *viewError(&messages.Problem{Code: e.Problem.Code, Message: e.Problem.Message})})
			}
			if err := st.write(saidFrames(&e, had)); err != nil {
				return err
			}
			had = true
		}
		if reader.Over() {
			return nil
		}
	}
}

// saidFrames are the events of a part of what an execution said. Where the part does not go on behind what the reader has, that is taken back
// first, with its id.
func saidFrames(e *hub.Event, had bool) []byte {
	var b bytes.Buffer
	if had && e.After == 0 {
		b.Write(hub.Reset("what you had is no longer known here; all of it follows", 0))
	}
	if e.Lost > 0 {
		notice, err := json.Marshal(view.Live{Kind: "notice", At: e.At, Message: fmt.Sprintf("%d entries before this one were not kept", e.Lost)})
		if err == nil { // it always encodes
			fmt.Fprintf(&b, "event: notice\ndata: %s\n\n", notice)
		}
	}
	first := e.N - int64(len(e.Said)) + 1
	for i, item := range e.Said {
		var entry struct {
			Kind string `json:"kind"`
		}
		if json.Unmarshal(item, &entry) != nil {
			continue // a node writes only what it has encoded
		}
		fmt.Fprintf(&b, "id: %s\nevent: %s\ndata: %s\n\n", live.Place{Log: e.Log, N: first + int64(i)}, entry.Kind, item)
	}
	return b.Bytes()
}
