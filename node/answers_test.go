package node_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
	"github.com/troupe-run/troupe/test/servers"
)

// weighing counts the bytes that are admitted and being read, and how long beats take.
type weighing struct {
	store.Store
	mu         sync.Mutex
	now, most  int64
	slowest    time.Duration // beat
	unadmitted atomic.Int64  // long reads for callers that nobody admitted
}

func (w *weighing) wrap(s store.Store) store.Store {
	w.Store = s
	return w
}

// admitting passes an admission on and notes its bytes.
type admitting struct {
	store.Admission
	of    *weighing
	bytes int64
}

func (a *admitting) Admit(ctx context.Context, bytes int64) error {
	if err := a.Admission.Admit(ctx, bytes); err != nil {
		return err
	}
	a.bytes = bytes
	a.of.add(bytes)
	return nil
}

func (w *weighing) add(bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now += bytes
	w.most = max(w.most, w.now)
}

func (w *weighing) Get(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
	inner := store.AdmissionOf(ctx)
	if inner == nil {
		return w.Store.Get(ctx, id)
	}
	a := &admitting{Admission: inner, of: w}
	e, err := w.Store.Get(store.WithAdmission(ctx, a), id)
	if len(e.Result) > store.AdmitFrom && a.bytes < int64(len(e.Result)) {
		w.unadmitted.Add(1)
	}
	w.add(-a.bytes)
	return e, err
}

func (w *weighing) Beat(ctx context.Context, inc messages.Incarnation, lease time.Duration) (store.Pulse, error) {
	began := time.Now()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.slowest = max(w.slowest, time.Since(began))
	}()
	return w.Store.Beat(ctx, inc, lease)
}

// Forty callers that ask for results of 8 MiB at once: each has its result or is asked to come again, no more is read at a time than is
// admitted, and the node goes on.
func TestManyLargeAnswersAtOnce(t *testing.T) {
	t.Parallel()
	const readers, results, size = 40, 4, 8<<20 - 64
	big := func(context.Context, *messages.Task) (any, error) {
		return json.RawMessage(`"` + strings.Repeat("x", size-2) + `"`), nil
	}
	for name, open := range map[string]func(context.Context) (store.Store, error){
		"sqlite": nil,
		"postgres": func(ctx context.Context) (store.Store, error) {
			return postgres.Open(ctx, postgres.Config{URL: servers.Postgres(t)})
		},
	} {
		t.Run(name, func(t *testing.T) { // not beside the other: the memory of both would be counted
			w := &weighing{}
			k := lab(t, func(c *node.Config) {
				handle(map[string]messages.Handler{"big": big, "noop": noop})(c)
				c.OpenStore, c.WrapStore, c.Listen = open, w.wrap, "127.0.0.1:0"
			}, goPack(t, map[string]string{"big": "", "noop": ""}))
			var ids []messages.ExecutionID
			for range results {
				ids = append(ids, k.run("t.big", nil).ID)
			}
			var group sync.WaitGroup
			var whole, later atomic.Int64
			for i := range readers {
				group.Go(func() {
					path := "http://" + k.Addr() + "/api/v1/executions/" + ids[i%results].String()
					if i%3 == 0 {
						path += "/wait"
					}
					answer, err := http.Get(path) //nolint:noctx // of this test's own node
					if err != nil {
						t.Errorf("reader %d: %v", i, err)
						return
					}
					defer answer.Body.Close()
					n, err := io.Copy(io.Discard, answer.Body)
					switch {
					case err == nil && answer.StatusCode == http.StatusOK && n > size:
						whole.Add(1)
					case err == nil && answer.StatusCode == http.StatusServiceUnavailable && answer.Header.Get("Retry-After") != "":
						later.Add(1)
					default:
						t.Errorf("reader %d: status %d, %d bytes, %v", i, answer.StatusCode, n, err)
					}
				})
			}
			over, peak := make(chan struct{}), make(chan uint64)
			go func() {
				most := uint64(0)
				for {
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					most = max(most, m.HeapAlloc)
					select {
					case <-over:
						peak <- most
						return
					case <-time.After(10 * time.Millisecond):
					}
				}
			}()
			require.Equal(t, messages.Completed, k.run("t.noop", nil).Status, "work of others goes on")
			group.Wait()
			close(over)
			w.mu.Lock() // the node beats on
			most, slowest := w.most, w.slowest
			w.mu.Unlock()
			t.Logf("%d read, %d told to come again; %d MiB admitted and being read at most; heap %d MiB at most; slowest beat %v",
				whole.Load(), later.Load(), most>>20, <-peak>>20, slowest)
			require.Positive(t, whole.Load())
			require.Equal(t, int64(readers), whole.Load()+later.Load())
			require.LessOrEqual(t, most, int64(32<<20), "the half that callers without a token may have")
			require.GreaterOrEqual(t, most, int64(size))
			require.Zero(t, w.unadmitted.Load())
			require.Zero(t, k.logged("store is away"))
		})
	}
}
