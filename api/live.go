package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/store"
)

// keepAlive is how often an idle stream sends a sign of life.
const keepAlive = 15 * time.Second

func (s *server) output(c *call) error {
	id, err := executionID(c.r)
	if err != nil {
		return err
	}
	follow, err := c.query.flag("follow")
	if err != nil {
		return err
	}
	if follow {
		return s.follow(c)
	}
	// Both an unknown execution and one without output give none. Only Get distinguishes them.
	if _, err := s.Backend.Get(store.Bare(c.r.Context()), id); err != nil {
		return s.remains(c, id, err)
	}
	out, err := s.Backend.Output(c.r.Context(), id)
	if err != nil {
		return s.remains(c, id, err)
	}
	view := viewOutput(id, out)
	return writeJSON(c.w, http.StatusOK, &view)
}

// follow streams the execution's live events. An error before the first one is an ordinary answer. A later error is the
// last entry of the stream.
func (s *server) follow(c *call) error {
	id, err := executionID(c.r)
	if err != nil {
		return err
	}
	if _, err := s.Backend.Get(store.Bare(c.r.Context()), id); err != nil {
		return s.remains(c, id, err)
	}
	if strings.Contains(c.r.Header.Get("Accept"), typeEvents) {
		return s.followEvents(c, id)
	}
	st := &stream{w: c.w, control: http.NewResponseController(c.w)}
	if err := st.open(); err != nil {
		return err
	}
	err = st.whileAlive(c.r.Context(), func(ctx context.Context) error {
		return s.Backend.Follow(ctx, id, func(l view.Live) error { return st.send(l.Kind, l) })
	})
	if err != nil && c.r.Context().Err() == nil {
		p := toProblem(named(err, "execution", id.String()))
		_ = st.send("error", form.ErrorBody{Error: *viewError(p)})
	}
	return nil
}

// stream writes values as JSON lines or as server-sent events.
type stream struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	control *http.ResponseController
	events  bool
}

func (st *stream) open() error {
	if st.events {
		head(st.w, []string{typeEvents})
	} else {
		head(st.w, []string{typeLines})
	}
	st.w.WriteHeader(http.StatusOK)
	return st.control.Flush()
}

// send writes one value in bounded time. A reader that does not read loses its stream.
func (st *stream) send(kind string, v any) error {
	if st.events {
		event, err := eventOf(kind, v)
		if err != nil {
			return err
		}
		return st.write(event)
	}
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return st.write(append(data, '\n'))
}

// eventOf is a server-sent event without an id.
func eventOf(kind string, v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return []byte("event: " + kind + "\ndata: " + string(data) + "\n\n"), nil
}

func (st *stream) write(b []byte) error { return st.writeAll([][]byte{b}) }

// writeAll writes parts that others may share, and sends them at once.
func (st *stream) writeAll(parts [][]byte) error {
	if len(parts) == 0 {
		return nil
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	_ = st.control.SetWriteDeadline(time.Now().Add(writeTime))
	for _, b := range parts {
		if _, err := st.w.Write(b); err != nil {
			return err
		}
	}
	return st.control.Flush()
}

// whileAlive calls what writes a stream, with signs of life between what it writes. Its context ends when the reader is lost.
func (st *stream) whileAlive(ctx context.Context, write func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var alive sync.WaitGroup
	alive.Go(func() { st.keepAlive(ctx, cancel) })
	err := write(ctx)
	cancel()
	alive.Wait()
	return err
}

// keepAlive writes data that readers ignore, so that a lost reader is noticed while there are no events.
func (st *stream) keepAlive(ctx context.Context, gone context.CancelFunc) {
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	filler := []byte("\n")
	if st.events {
		filler = []byte(": still here\n\n")
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if st.write(filler) != nil {
				gone()
				return
			}
		}
	}
}
