package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/rules/throttle"
)

const (
	// exchangesEvery is how often a node looks whether the shared exchanges are there. Nothing else tells it: a message to
	// an exchange that has gone costs a channel and no more, and what expires then is dropped without a word.
	exchangesEvery = 3 * time.Second
	// lossTold is how long /readyz and the doctor's reader are told of an exchange that was declared again.
	lossTold = 10 * time.Minute
)

// loss is an exchange that was found missing.
type loss struct {
	found, mended time.Time // mended is zero while it is missing
	err           error     // why it could not be declared again
	gate          throttle.Gate
}

// losses are the shared exchanges that were missing of late, by name.
type losses struct {
	mu sync.Mutex
	of map[string]*loss
}

// found notes an exchange that was missing and what came of declaring it, and says whether to log that now, and how many
// were not logged since the last that was.
func (l *losses) found(name string, now time.Time, err error) (log bool, withheld int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]*loss{}
	}
	known := l.of[name]
	if known == nil {
		known = &loss{}
		l.of[name] = known
	}
	if known.found.IsZero() || !known.mended.IsZero() {
		known.found, known.mended = now, time.Time{}
	}
	if known.err = err; err == nil {
		known.mended = now
	}
	return known.gate.Pass(now)
}

// there notes that all exchanges are there, and forgets the losses that have been told for long enough.
func (l *losses) there(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, known := range l.of {
		switch {
		case known.mended.IsZero():
			known.mended = now
		case now.Sub(known.mended) > lossTold:
			delete(l.of, name)
		}
	}
}

// notes are for /readyz, by name of the exchange.
func (l *losses) notes(exchanges []broker.Exchange) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var notes []string
	for _, e := range exchanges {
		known := l.of[e.Name]
		switch {
		case known == nil:
		case known.mended.IsZero():
			notes = append(notes, fmt.Sprintf("the exchange %s is missing since %s and cannot be declared: %v",
				e.Name, known.found.UTC().Format(time.RFC3339), known.err))
		default:
			notes = append(notes, fmt.Sprintf("the exchange %s was missing and was declared again at %s; "+
				"what other programs had bound to it they must bind again", e.Name, known.mended.UTC().Format(time.RFC3339)))
		}
	}
	return notes
}

// nextLook is when the shared exchanges are looked for again; nodes that started together spread.
func nextLook(now time.Time) time.Time {
	return now.Add(time.Duration(float64(exchangesEvery) * (0.8 + 0.4*rand.Float64())))
}

// lookAtExchanges declares again what of the shared exchanges and bindings has gone while the broker was up. Queues need
// none of it: who consumes one hears of its end.
func (w *watcher) lookAtExchanges(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, declareTime)
	defer cancel()
	t := w.node.cfg.Broker.Shared()
	missing := false
	for _, e := range t.Exchanges {
		err := w.node.broker.adapter.InspectExchange(limited, e.Name)
		if errors.Is(err, broker.ErrNoExchange) {
			missing = true
			w.declareExchange(limited, e)
		} else if err != nil {
			return // the broker is away, or about to be
		}
	}
	// A binding cannot be asked for. To make one that is there changes nothing.
	err := w.node.broker.adapter.Declare(limited, broker.Topology{Bindings: t.Bindings})
	if !missing && (err == nil || errors.Is(err, broker.ErrBroken)) {
		w.losses.there(time.Now())
	}
}

// hasDeclared reports whether the shared topology has been made since the broker came, so that what is missing was deleted.
func (w *watcher) hasDeclared() bool {
	odd := w.odd.Load()
	return w.declared.Load() || odd != nil && len(brokenNotes(*odd)) > 0 && w.broker.read().up
}

// declareExchange makes an exchange that was found missing.
func (w *watcher) declareExchange(ctx context.Context, e broker.Exchange) {
	err := w.node.broker.adapter.Declare(ctx, broker.Topology{Exchanges: []broker.Exchange{e}})
	log, withheld := w.losses.found(e.Name, time.Now(), err)
	args := append(throttle.LeftOut(withheld), "exchange", e.Name)
	switch {
	case !log:
	case err != nil:
		w.broker.logger.Error("a shared exchange is missing and cannot be declared", append(args, "error", err)...)
	default:
		w.broker.logger.Error("a shared exchange was missing and is declared again; what other programs had bound to it "+
			"they must bind again", args...)
	}
}
