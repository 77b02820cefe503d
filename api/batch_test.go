package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
)

// flood is a body that repeats one entry for as long as somebody reads, and counts what was read.
type flood struct {
	head, entry string
	left        string
	read        atomic.Int64
}

func (f *flood) Read(p []byte) (int, error) {
	if f.left == "" {
		f.left, f.head = f.head, ""
		if f.left == "" {
			f.left = strings.Repeat(f.entry, 1+4096/len(f.entry))
		}
	}
	n := copy(p, f.left)
	f.left = f.left[n:]
	f.read.Add(int64(n))
	return n, nil
}

// post sends a body of unknown length, as from this machine.
func post(t testing.TB, h http.Handler, path string, body io.Reader) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, body)
	r.RemoteAddr, r.Host, r.ContentLength = "127.0.0.1:4711", "127.0.0.1:7070", -1
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// The attack: 31 MiB of small entries became gigabytes of executions before anybody looked at one. What a batch costs does not
// depend on what follows behind the entry that decides: that is thrown away.
//
//nolint:paralleltest // it measures what is allocated, by all
func TestWhatABatchAllocates(t *testing.T) {
	h := New(Config{Backend: newBackend(t)})
	body := `{"executions":[` + strings.TrimSuffix(strings.Repeat(`{},`, 1<<19), ",") + `]}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w := ask(t, h, "POST", executionsPath+"/batch", body)
	runtime.ReadMemStats(&after)
	refusedWith400(t, w, "executions[0]: action_ref is missing")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20), "as entries it would be ten times as much")
}

// A body is decoded no further than to the entry that decides.
func TestABatchIsDecodedNoFurtherThanItMustBe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		head, entry string
		text        string
		most        int64
	}{
		"the first entry is wrong": {`{"executions":[`, `{},`, "executions[0]: action_ref is missing", 0},
		"one too many":             {`{"executions":[`, `{"action_ref":"a"},`, "executions must hold 1 to 10000 entries, got more", 10_001 * 19},
		"no entry":                 {`{"executions":[`, `7,`, "executions[0]: the entry: want an object, got number", 0},
		"another key":              {`{`, `"x":1,`, `unknown field "x"`, 0},
	} {
		f := &flood{head: c.head, entry: c.entry}
		from := &bodyReader{from: f, hold: &holding{of: &bodies{max: BatchBodyMax}}, max: BatchBodyMax}
		_, err := newBatchDecoder(from).decode()
		require.ErrorContains(t, err, c.text)
		require.LessOrEqual(t, f.read.Load(), c.most+64<<10, name)
	}
}

func refusedWith400(t *testing.T, w *httptest.ResponseRecorder, text string) {
	t.Helper()
	e := read[form.ErrorBody](t, w, http.StatusBadRequest).Error
	require.Contains(t, e.Message, text)
}

// No entry of a batch may be larger than a submission, and what is between them is short, so that no buffer grows to the size of
// the body, and none is looked at again and again.
func TestAPartOfABatchIsNoLargerThanASubmission(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 4096)
	blanks := strings.Repeat(" ", 4096)
	for _, c := range []struct {
		head, entry string
		status      int
		code        messages.Code
		text        string
	}{
		{`{"executions":[{"action_ref":"a"},{"action_ref":"`, long, 413, "parameters_too_large", "executions[1]: "},
		{`{"executions":[{"action_ref":"a","parameters":{"a":[`, "1,", 413, "parameters_too_large", "executions[0]: "},
		{`{"`, long, 400, messages.CodeInvalidRequest, "more than 16384 bytes of blanks, or of one name"},
		{``, blanks, 400, messages.CodeInvalidRequest, "more than 16384 bytes of blanks"},
		{`{"executions":[`, blanks, 400, messages.CodeInvalidRequest, "more than 16384 bytes of blanks"},
		{`{"executions":[{"action_ref":"a"}`, blanks, 400, messages.CodeInvalidRequest, "more than 16384 bytes of blanks"},
	} {
		f := &flood{head: c.head, entry: c.entry}
		from := &bodyReader{from: f, hold: &holding{of: &bodies{max: BatchBodyMax}}, max: BatchBodyMax}
		_, err := newBatchDecoder(from).decode()
		var p *messages.Problem
		require.ErrorAs(t, err, &p)
		require.Equal(t, c.status, StatusOf(p), p.Message)
		require.Equal(t, c.code, p.Code)
		require.Contains(t, p.Message, c.text)
		require.LessOrEqual(t, f.read.Load(), int64(4*BodyMax))
	}
}

func TestBadBatches(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b})
	for _, c := range []struct {
		body string
		code messages.Code
		text string
	}{
		{` `, messages.CodeInvalidJSON, "ends in the middle"},
		{`{`, messages.CodeInvalidJSON, "ends in the middle"},
		{`{"executions"`, messages.CodeInvalidJSON, "ends in the middle"},
		{`{"executions":[`, messages.CodeInvalidJSON, "ends in the middle"},
		{`{"executions":[{"action_ref":"a"}`, messages.CodeInvalidJSON, "ends in the middle"},
		{`{"executions":[{"action_ref":"a"},{"action`, messages.CodeInvalidJSON, "executions[1]: the body ends in the middle"},
		{`{"executions":[{"action_ref":"a"}]`, messages.CodeInvalidJSON, "ends in the middle"},
		{`{"executions":[{"action_ref":"a"}]} {}`, messages.CodeInvalidJSON, "goes on after its JSON value, at byte 35"},
		{`{"executions":[{"action_ref":"a"}]}]`, messages.CodeInvalidJSON, "goes on after its JSON value"},
		{`{"executions":[{"action_ref":"a"},]}`, messages.CodeInvalidJSON, "executions[1]: the body is not JSON"},
		{`{"executions":[{"action_ref":"a"} {"action_ref":"a"}]}`, messages.CodeInvalidJSON, "executions[1]: the body is not JSON"},
		{`{"executions":[{"action_ref":"a"},{"action_ref":a}]}`, messages.CodeInvalidJSON, "executions[1]: the body is not JSON"},
		{`{"executions":[{"action_ref":"a"},{"action_ref":"` + "\xff" + `"}]}`, messages.CodeInvalidJSON, "executions[1]: /action_ref is not UTF-8"},
		{`{"executions":[{"action_ref":"a"},{"action_ref":7}]}`, messages.CodeInvalidRequest, "executions[1]: action_ref: want text, got number"},
		{`{"executions":[{"action_ref":"a"},{"created_by":"root"}]}`, messages.CodeUnknownField, `executions[1]: unknown field "created_by"`},
		{`{"executions":[{"action_ref":"a"},null]}`, messages.CodeInvalidRequest, "executions[1]: action_ref is missing"},
		{`[]`, messages.CodeInvalidRequest, "the body: want an object, got array"},
		{`null`, messages.CodeInvalidRequest, "the body: want an object, got null"},
		{`{}`, messages.CodeInvalidRequest, "1 to 10000 entries, got 0"},
		{`{"executions":null}`, messages.CodeInvalidRequest, "executions: want a list, got null"},
		{`{"executions":{}}`, messages.CodeInvalidRequest, "executions: want a list, got object"},
		{`{"executions":[{"action_ref":"a"}],"executions":[{"action_ref":"a"}]}`, messages.CodeInvalidJSON, "executions twice"},
		{`{"Executions":[{"action_ref":"a"}]}`, messages.CodeUnknownField, `unknown field "Executions"; write it as "executions"`},
		{`{"executions":[{"action_ref":"a"},{"action_ref":"a","action_ref":"b"}]}`, messages.CodeInvalidJSON, "executions[1]: /action_ref is there twice"},
		{`{"executions":[{"action_ref":"a"}],"x":1}`, messages.CodeUnknownField, `unknown field "x"`},
	} {
		w := ask(t, h, "POST", executionsPath+"/batch", c.body)
		e := read[form.ErrorBody](t, w, http.StatusBadRequest).Error
		require.Contains(t, e.Message, c.text, c.body)
		require.Equal(t, string(c.code), e.Code, c.body)
	}
	require.Empty(t, b.requests)
	deep := `{"executions":[{"action_ref":"a","parameters":` + nested(20_000) + `}]}`
	require.Equal(t, http.StatusBadRequest, ask(t, h, "POST", executionsPath+"/batch", deep).Code)
	gap := strings.Repeat("\n", 12<<10)
	spread := gap + `{` + gap + `"executions"` + gap + `:` + `[` + gap + sized(500<<10) + gap + `,` + gap + sized(300<<10) + gap + `]` + gap + `}` + gap
	read[form.BatchView](t, ask(t, h, "POST", executionsPath+"/batch", spread), http.StatusCreated)
}

// half is a body of which the rest comes once its sender goes on.
type half struct {
	first io.Reader
	came  chan struct{} // closed when the first half has been read
	goOn  chan struct{}
	rest  io.Reader
	once  atomic.Bool
}

func (h *half) Read(p []byte) (int, error) {
	if n, err := h.first.Read(p); err == nil {
		return n, nil
	}
	if !h.once.Swap(true) {
		close(h.came)
		<-h.goOn
	}
	return h.rest.Read(p)
}

func halfBody(text string) *half {
	return &half{first: strings.NewReader(text[:len(text)/2]), rest: strings.NewReader(text[len(text)/2:]),
		came: make(chan struct{}), goOn: make(chan struct{})}
}

// The bodies of all requests together are bounded by their bytes, as they arrive, and given back at each one's end.
func TestBodiesTogetherAreBounded(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t), BodiesMax: 64 << 10})
	body := sized(40 << 10)
	slow := halfBody(body)
	first := make(chan int, 1)
	go func() { first <- post(t, h, executionsPath, slow).Code }()
	<-slow.came
	w := ask(t, h, "POST", executionsPath, sized(50<<10))
	refused(t, w, http.StatusTooManyRequests, messages.CodeTooManyRequests, "limits.bodies")
	require.Equal(t, "1", w.Header().Get("Retry-After"))
	submitted(t, h, `{"action_ref":"a"}`) // a small one finds room
	close(slow.goOn)
	require.Equal(t, http.StatusCreated, <-first)
	for range 3 {
		submitted(t, h, sized(50<<10)) // nothing is held any more, of what was refused neither
	}
}

// A batch leaves a quarter to others, and its entries count for more than their bytes.
func TestABatchLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t), BodiesMax: 64 << 10})
	batch := func(n int) string {
		return `{"executions":[` + strings.TrimSuffix(strings.Repeat(`{"action_ref":"a"},`, n), ",") + `]}`
	}
	read[form.BatchView](t, ask(t, h, "POST", executionsPath+"/batch", batch(50)), http.StatusCreated)
	refused(t, ask(t, h, "POST", executionsPath+"/batch", batch(200)), http.StatusTooManyRequests, messages.CodeTooManyRequests, "limits.bodies")
	large := fmt.Sprintf(`{"executions":[%s]}`, sized(56<<10))
	refused(t, ask(t, h, "POST", executionsPath+"/batch", large), http.StatusTooManyRequests, messages.CodeTooManyRequests, "limits.bodies")
	submitted(t, h, sized(56<<10))
}

// Where batches come at once, the first that finds no room waits for it, and the others are refused: so one of them ends.
func TestTheFirstBatchWaitsForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bodies{max: 64 << 10}
		small := &holding{of: b}
		batch := func() *holding { return &holding{of: b, spare: 16 << 10} }
		first, second, third := batch(), batch(), batch()
		require.NoError(t, first.add(20<<10))
		require.NoError(t, second.add(20<<10))
		require.NoError(t, third.add(4<<10))
		waited := make(chan error, 1)
		go func() { waited <- second.add(20 << 10) }()
		synctest.Wait()
		require.NoError(t, small.add(8<<10), "what is no batch has room")
		require.Error(t, (&holding{of: b}).add(48<<10), "and never waits for it")
		require.Error(t, first.add(8<<10), "another batch waits already")
		third.release()
		synctest.Wait()
		require.Empty(t, waited)
		first.release()
		require.NoError(t, <-waited)
		require.Error(t, second.add(20<<10), "no room will ever be enough")
		second.release()
		second.release()
		small.release()
		require.Zero(t, b.now)
		require.Nil(t, b.first)

		require.NoError(t, first.add(40<<10))
		require.Error(t, second.add(20<<10), "nobody gives any back in time")
		second.release()
		first.release()
		require.Zero(t, b.now)
	})
}

// One token's batches have a share of the batches' part, so that those of another find room; the first that finds none in its
// token's share waits for it, and holds up nobody else.
func TestOneTokenHasAShareOfTheBatches(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	type step struct {
		caller string
		bytes  int64
		fits   bool
	}
	for name, c := range map[string]struct {
		max   int64
		held  []step // each by a batch of its own, one after the other
		share int64
	}{
		"one token":                     {128 * mib, []step{{"a", 30 * mib, true}, {"a", 18 * mib, true}, {"a", 4096, false}}, 48 * mib},
		"another finds room":            {128 * mib, []step{{"a", 48 * mib, true}, {"a", mib, false}, {"b", 32 * mib, true}, {"b", 16 * mib, true}, {"c", 4096, false}}, 48 * mib},
		"no tokens, no shares":          {128 * mib, []step{{"", 48 * mib, true}, {"", 48 * mib, true}, {"", 4096, false}}, 48 * mib},
		"one largest batch fits always": {64 * mib, []step{{"a", largestBatch, true}, {"a", 4096, false}, {"b", 4 * mib, true}}, largestBatch},
		"a small part is not shared":    {8 * mib, []step{{"a", 6 * mib, true}, {"b", 4096, false}}, 6 * mib},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &bodies{max: c.max}
			require.Equal(t, c.share, share(c.max-c.max/4), name)
			var held []*holding
			for i, s := range c.held {
				h := &holding{of: b, spare: c.max / 4, caller: s.caller}
				err := h.add(s.bytes)
				require.Equal(t, s.fits, err == nil, "%s: %d: %v", name, i, err)
				if !s.fits {
					require.Equal(t, s.caller != "" && b.shares[s.caller] != nil && b.shares[s.caller].now+s.bytes > c.share,
						strings.Contains(err.Error(), "the batches in flight of token"), "%s: %d: %v", name, i, err)
					h.release()
					continue
				}
				held = append(held, h)
			}
			require.NoError(t, (&holding{of: b, caller: "a"}).add(c.max/4), "what is no batch has the quarter, whosever it is")
			for _, h := range held {
				h.release()
			}
			require.Empty(t, b.shares, name)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		b := &bodies{max: 128 * mib}
		batch := func(caller string) *holding { return &holding{of: b, spare: 32 * mib, caller: caller} }
		first, second, third, other := batch("a"), batch("a"), batch("a"), batch("b")
		require.NoError(t, first.add(20*mib))
		require.NoError(t, second.add(20*mib))
		waited := make(chan error, 1)
		go func() { waited <- second.add(12 * mib) }()
		synctest.Wait()
		require.Error(t, third.add(12*mib), "another of the token waits already")
		require.NoError(t, other.add(32*mib), "and nobody else is held up")
		first.release()
		synctest.Wait()
		require.NoError(t, <-waited)
		require.Error(t, second.add(32*mib), "no share will ever be enough")
	})
}

// The share is that of the token that a request came with; without tokens there is none.
func TestTheShareIsTheCallersToken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		access  *Access
		headers []string
		want    string
	}{
		{withTokens(t, nil), nil, ""},
		{withTokens(t, []Token{{Name: "ops", Secret: adminToken, Scopes: []Scope{ScopeAdmin}}}), []string{"Authorization", "Bearer " + adminToken}, "ops"},
	} {
		s, found := &server{Config: Config{Now: time.Now}, guard: newGuard(&Config{Access: c.access}), logger: hclog.NewNullLogger()}, "none"
		h := s.serve(&route{method: "GET", path: "/x", scope: ScopeRead, storeless: true, probe: true, handle: func(_ *server, c *call) error {
			found = c.hold.caller
			return nil
		}})
		require.Equal(t, 200, ask(t, h, "GET", "/x", "", c.headers...).Code)
		require.Equal(t, c.want, found)
	}
}

// Whoever waits for an execution's end holds no body meanwhile.
func TestAWaitHoldsNoBody(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.waiting = make(chan struct{})
	b.waits = make(chan struct{}, 1)
	h := New(Config{Backend: b, BodiesMax: 64 << 10})
	waited := make(chan int, 1)
	body := strings.Replace(sized(50<<10), `{`, `{"wait_seconds":60,`, 1)
	go func() { waited <- ask(t, h, "POST", executionsPath, body).Code }()
	<-b.waits
	submitted(t, h, sized(50<<10))
	close(b.waiting)
	require.Equal(t, http.StatusCreated, <-waited)
}

// taker takes what is submitted and stores nothing.
type taker struct{ backend }

func (*taker) Submit(_ context.Context, r []submit.Request) ([]store.Submitted, error) {
	stored := make([]store.Submitted, len(r))
	for i := range stored {
		stored[i].Execution = messages.Execution{ID: messages.NewExecutionID(), Status: messages.Requested}
	}
	return stored, nil
}

func TestBatchMaxIsTaken(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: &taker{}})
	body := `{"executions":[` + strings.TrimSuffix(strings.Repeat(`{"action_ref":"a"},`, messages.BatchMax), ",") + `]}`
	require.Len(t, read[form.BatchView](t, ask(t, h, "POST", executionsPath+"/batch", body), http.StatusCreated).Executions, messages.BatchMax)
}
