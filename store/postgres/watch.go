package postgres

import (
	"context"
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// hub listens on a connection of its own and passes notifications to all watchers. It listens while there are watchers.
type hub struct {
	s       *core
	config  *pgx.ConnConfig
	mu      sync.Mutex
	watches map[*watch]struct{}
	stop    context.CancelFunc // ends the listening goroutine; nil: none
}

func newHub(s *core, config *pgx.ConnConfig) *hub {
	return &hub{s: s, config: config, watches: map[*watch]struct{}{}}
}

// Watch reports changes by other programs and nodes, and by this one, until ctx or the store ends.
func (s *hints) Watch(ctx context.Context) (<-chan store.Hint, error) {
	if s.closed() {
		return nil, s.mapError("watch", store.ErrClosed)
	}
	w := &watch{out: make(chan store.Hint), wake: make(chan struct{}, 1), waiting: map[store.Hint]struct{}{}}
	// Changes before the connection listens were missed, so the first hint says to look.
	w.put(store.Hint{Kind: store.HintLook})
	s.deliver.add(w)
	s.work.Go(func() {
		defer close(w.out)
		defer s.deliver.remove(w)
		w.run(ctx, s.quit)
	})
	return w.out, nil
}

func (h *hub) add(w *watch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watches[w] = struct{}{}
	if h.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		h.stop = stop
		h.s.work.Go(func() { h.listen(ctx) })
	}
}

func (h *hub) remove(w *watch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watches, w)
	if len(h.watches) == 0 && h.stop != nil {
		h.stop()
		h.stop = nil
	}
}

// tell passes hints to every watcher.
func (h *hub) tell(hints ...store.Hint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watches {
		for _, hint := range hints {
			w.put(hint)
		}
	}
}

// The pauses between attempts to listen.
const (
	listenPause    = 100 * time.Millisecond
	listenPauseMax = 2 * time.Second
)

// listen keeps a listening connection, and replaces it when it breaks. Each new one starts with a hint to look.
func (h *hub) listen(ctx context.Context) {
	pause := listenPause
	for ctx.Err() == nil {
		c, err := pgx.ConnectConfig(ctx, h.config)
		if err == nil {
			pause = listenPause
			h.receive(ctx, c)
			closeQuietly(c)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause)):
		}
		pause = min(2*pause, listenPauseMax)
	}
}

func closeQuietly(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx) // its error does not matter
}

// silenceMax bounds the silence before the connection is checked.
const silenceMax = 15 * time.Second

// receive listens until the connection breaks or ctx ends.
func (h *hub) receive(ctx context.Context, c *pgx.Conn) {
	if _, err := c.Exec(ctx, "LISTEN "+pgx.Identifier{h.s.channel()}.Sanitize()); err != nil {
		return
	}
	h.tell(store.Hint{Kind: store.HintLook})
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, silenceMax)
		n, err := c.WaitForNotification(wait)
		quiet := wait.Err() != nil
		cancel()
		switch {
		case err == nil:
			h.tell(hintsOf(n.Payload)...)
		case quiet && ctx.Err() == nil && !c.IsClosed():
			ping, cancel := context.WithTimeout(ctx, dialTimeout)
			err = c.Ping(ping)
			cancel()
			if err != nil {
				return
			}
		default:
			return
		}
	}
}

// hintsOf reads a notification. An unknown one is a hint to look.
func hintsOf(payload string) []store.Hint {
	if payload == payloadInbox {
		return []store.Hint{{Kind: store.HintInbox}}
	}
	if payload == payloadRouter {
		return []store.Hint{{Kind: store.HintRouter}}
	}
	if pool, ok := strings.CutPrefix(payload, payloadRequested); ok {
		return []store.Hint{{Kind: store.HintRequested, Pool: decodeText(pool)}}
	}
	if text, ok := strings.CutPrefix(payload, payloadCancel); ok {
		if id, err := messages.ParseExecutionID(text); err == nil {
			return []store.Hint{{Kind: store.HintCancel, Execution: id}}
		}
	}
	if list, ok := strings.CutPrefix(payload, payloadFinished); ok {
		var out []store.Hint
		for _, text := range strings.Fields(list) {
			b, err := base64.RawURLEncoding.DecodeString(text)
			if err != nil || len(b) != len(messages.ExecutionID{}) {
				return []store.Hint{{Kind: store.HintLook}}
			}
			out = append(out, store.Hint{Kind: store.HintFinished, Execution: messages.ExecutionID(b)})
		}
		return out
	}
	return []store.Hint{{Kind: store.HintLook}}
}

// watch is one watcher with its pending hints, each once. Above the bound they become one hint to look.
type watch struct {
	out     chan store.Hint
	wake    chan struct{}
	mu      sync.Mutex
	waiting map[store.Hint]struct{}
	order   []store.Hint
}

// hintsMax bounds the pending hints of one watcher.
const hintsMax = 4096

func (w *watch) put(h store.Hint) {
	w.mu.Lock()
	defer w.mu.Unlock()
	look := store.Hint{Kind: store.HintLook}
	if len(w.order) >= hintsMax {
		clear(w.waiting)
		w.order, h = w.order[:0], look
	}
	if _, ok := w.waiting[h]; ok {
		return
	}
	w.waiting[h] = struct{}{}
	w.order = append(w.order, h)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watch) take() (store.Hint, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.order) == 0 {
		w.order = nil
		return store.Hint{}, false
	}
	h := w.order[0]
	w.order = w.order[1:]
	delete(w.waiting, h)
	return h, true
}

// run delivers hints one by one.
func (w *watch) run(ctx context.Context, quit chan struct{}) {
	for {
		h, ok := w.take()
		if !ok {
			select {
			case <-w.wake:
				continue
			case <-ctx.Done():
			case <-quit:
			}
			return
		}
		select {
		case w.out <- h:
		case <-ctx.Done():
			return
		case <-quit:
			return
		}
	}
}
