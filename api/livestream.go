package api

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/api/hub"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
)

// Bounds of live streams.
const (
	StreamsMax = 256                   // on a node
	liveBeat   = 2 * time.Second       // between two signs of life; at each, the node looks whether the reader may still read
	liveGather = 25 * time.Millisecond // in which what else comes is written along: of topics that are read at the same tick
	// liveGatherMax is how many bytes are written without waiting for more.
	liveGatherMax = 256 << 10
	liveBackMax   = 5 * time.Second // after which a reader comes back to a node that has stopped, so that not all come at once
	liveFull      = 5 * time.Second // after which one comes back to a node that has no place
)

// LiveHello is the first event of a live stream, notice: what answers.
type LiveHello struct {
	Node    string `json:"node"`
	Version string `json:"version"`
	Build   string `json:"build"`
}

// LiveBeat is the event alive.
type LiveBeat struct {
	At   time.Time            `json:"at" doc:"the store's time"`
	Read map[string]time.Time `json:"read" doc:"when each topic was read last; one that cannot be read now is missing"`
}

// LiveEvent is an event of a topic. The kind of the event is the topic's word.
type LiveEvent struct {
	Topic   string       `json:"topic"`
	At      time.Time    `json:"at,omitzero" doc:"when the topic was read, by the store's clock"`
	N       int64        `json:"n,omitempty" doc:"number of this state of the topic"`
	After   int64        `json:"after,omitempty" doc:"number of the state that changes; missing: a snapshot, which replaces everything"`
	Set     [][]any      `json:"set,omitempty" doc:"what is new or has another value: pairs of a key and a value. A key is a field of the answer; for an element of a list, a slash and the element's name behind it"`
	Gone    []string     `json:"gone,omitempty" doc:"keys that are there no more"`
	Keys    []string     `json:"keys,omitempty" doc:"the order of all keys; where it is missing, new keys stand before all others"`
	Log     string       `json:"log,omitempty" doc:"of what is said: the name of the log in which n and after count"`
	Said    []view.Live  `json:"said,omitempty" doc:"what was said, in its order: the entries of an execution's output"`
	Lost    int64        `json:"lost,omitempty" doc:"how many entries between after and these were not kept"`
	Problem *hub.Problem `json:"problem,omitempty" doc:"why the topic cannot be read now; what it was stays"`
}

func liveRoute() *route {
	var topics []string
	for _, k := range topicKinds() {
		topics = append(topics, k.name+" ("+k.help+")")
	}
	return &route{method: "GET", path: "/api/v1/stream", scope: ScopeRead, group: "nodes", storeless: true, follows: true, media: typeEvents,
		params: []param{{name: "topics", kind: "string", many: true, max: topicsTextMax,
			help: "What to follow, joined with commas: " + strings.Join(topics, ", ") +
				". Behind a name, a colon and the parameters that the answer itself takes, as list:status=failed. A comma within them is written %2C."}},
		summary: "Follow what changes, as server-sent events: first a snapshot of each topic, then differences. Last-Event-ID goes on where a stream of the same topics was.",
		result:  LiveEvent{}, handle: (*server).follows}
}

func (s *server) follows(c *call) error {
	topics, err := s.topics(c.query)
	if err != nil {
		return err
	}
	reader, err := s.join(c, topics, c.r.Header.Get("Last-Event-ID"))
	if err != nil {
		return err
	}
	defer reader.Leave()
	c.w.Header().Set("X-Accel-Buffering", "no") // a proxy hands on each event as it comes
	st := &stream{w: c.w, control: http.NewResponseController(c.w), events: true}
	if err := st.open(); err != nil {
		return nil
	}
	_ = s.pump(c, st, reader) // its error is that the reader has left
	return nil
}

// join begins to follow topics behind the event with an id, or refuses where there are too many topics.
func (s *server) join(c *call, topics []hub.Topic, last string) (*hub.Reader, error) {
	reader, err := s.Hub.Join(topics, last)
	if errors.Is(err, hub.ErrTopics) {
		c.w.Header().Set("Retry-After", strconv.Itoa(int(liveFull/time.Second)))
		return nil, messages.Problemf(messages.CodeTooManyRequests, "as many different topics are followed on this node as it takes, which is %d, and the output of %d executions; try again", hub.TopicsMax, hub.FlowsMax)
	}
	return reader, err
}

// pump writes what the reader follows until it leaves, may no longer read, or the node stops.
func (s *server) pump(c *call, st *stream, reader *hub.Reader) error {
	if err := st.send("notice", LiveHello{Node: s.About.Node, Version: s.Version, Build: s.About.Build}); err != nil {
		return err
	}
	out := liveWriter{s: s, c: c, st: st, reader: reader, joined: time.Now(), beaten: time.Now()}
	beat := time.NewTimer(liveBeat)
	defer beat.Stop()
	for {
		var err error
		select {
		case <-reader.Ready():
			err = out.write()
		case <-beat.C:
			err = out.beat(nil)
		case <-c.r.Context().Done():
			if lifeOf(c.r.Context()).Err() != nil {
				return st.write(hub.Reset("the node stops", rand.N(liveBackMax)))
			}
			return context.Cause(c.r.Context())
		}
		if err != nil || out.over {
			return err
		}
		beat.Reset(time.Until(out.beaten.Add(liveBeat + hub.Every/2)))
	}
}

// liveWriter writes what a reader follows, and the signs of life.
type liveWriter struct {
	s              *server
	c              *call
	st             *stream
	reader         *hub.Reader
	joined, beaten time.Time
	over           bool // the reader was told to go
}

// write writes what waits for the reader. Once it has what there was, it is given what comes at the same tick together, with the sign of life
// where that is due about then: a node with many readers is woken less often. What comes is taken at once, so that it has not to find room
// beside what came before.
func (w *liveWriter) write() error {
	frames := w.reader.Take()
	if time.Since(w.joined) > hub.Every {
		var err error
		if frames, err = w.gather(frames); err != nil {
			return err
		}
	}
	if time.Since(w.beaten) >= liveBeat-hub.Every/2 {
		return w.beat(frames)
	}
	return w.st.writeAll(frames)
}

// gather adds what comes within a moment, up to a bound.
func (w *liveWriter) gather(frames [][]byte) ([][]byte, error) {
	size := 0
	for _, f := range frames {
		size += len(f)
	}
	over := time.NewTimer(liveGather)
	defer over.Stop()
	for size < liveGatherMax {
		select {
		case <-w.reader.Ready():
			for _, f := range w.reader.Take() {
				frames, size = append(frames, f), size+len(f)
			}
		case <-over.C:
			return frames, nil
		case <-w.c.r.Context().Done():
			return nil, context.Cause(w.c.r.Context())
		}
	}
	return frames, nil
}

// beat writes a sign of life behind frames, or the reader's end.
func (w *liveWriter) beat(frames [][]byte) error {
	w.beaten = time.Now()
	if w.over = !w.s.admits(w.c); w.over {
		return w.st.write(hub.Reset("you may no longer read this; log in again", 0))
	}
	alive, err := eventOf("alive", LiveBeat{At: w.s.Now().UTC(), Read: w.reader.Ages()})
	if err != nil {
		return err
	}
	return w.st.writeAll(append(frames, alive))
}

// admits reports whether the reader may still read: its token may have been removed, or its login ended.
func (s *server) admits(c *call) bool {
	_, refused := s.guard.admit(c.r, &route{method: "GET", scope: ScopeRead})
	return refused == nil
}
