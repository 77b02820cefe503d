package postgres

import (
	"context"
	crand "crypto/rand"
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
	silence time.Duration      // before the connection is checked
}

func newHub(s *core, config *pgx.ConnConfig) *hub {
	return &hub{s: s, config: config, watches: map[*watch]struct{}{}, silence: silenceMax}
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

// silenceMax bounds the silence before the connection is checked, echoTime how long its check may take.
const (
	silenceMax = 15 * time.Second
	echoTime   = dialTimeout
)

// receive listens until the connection breaks or ctx ends. A LISTEN can be dead while its connection answers: behind a pooler, or on the
// server of before a failover. So after a silence the store notifies itself, by the pool's connections, on a channel of this connection's own.
func (h *hub) receive(ctx context.Context, c *pgx.Conn) {
	echo := "troupe.echo." + crand.Text()
	for _, channel := range []string{h.s.channel(), echo} {
		if _, err := c.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
			return
		}
	}
	h.tell(store.Hint{Kind: store.HintLook})
	for ctx.Err() == nil {
		if quiet, ok := h.next(ctx, c, echo, h.silence); !ok || quiet && !h.echoes(ctx, c, echo) {
			return
		}
	}
}

// next waits for one notification and passes it on. Quiet: none came within the limit. Not ok: the connection is of no more use.
func (h *hub) next(ctx context.Context, c *pgx.Conn, echo string, limit time.Duration) (quiet, ok bool) {
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	n, err := c.WaitForNotification(wait)
	switch {
	case err == nil && n.Channel != echo:
		h.tell(hintsOf(n.Payload)...)
	case err != nil:
		quiet = wait.Err() != nil
		return quiet, quiet && ctx.Err() == nil && !c.IsClosed()
	}
	return false, true
}

// echoes reports whether a notification to itself comes back. Where the store takes none now, the connection has only to answer.
func (h *hub) echoes(ctx context.Context, c *pgx.Conn, echo string) bool {
	limited, cancel := context.WithTimeout(ctx, echoTime)
	defer cancel()
	if _, err := h.s.pool.Exec(limited, "SELECT pg_notify($1, '')", echo); err != nil {
		_ = h.s.mapError("notify itself", err) // so that a pool of connections to a server that takes no writes is replaced
		return c.Ping(limited) == nil
	}
	quiet, ok := h.next(ctx, c, echo, echoTime)
	return ok && !quiet
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
