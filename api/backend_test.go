package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/differences"
	"github.com/troupe-run/troupe/rules/facets"
	"github.com/troupe-run/troupe/rules/failures"
	"github.com/troupe-run/troupe/rules/keyframe"
	"github.com/troupe-run/troupe/rules/rollup"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/rules/timeline"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend is a node for the HTTP layer alone: its executions and dead letters live in the real store, its workers
// are fixed. Whatever a test wants otherwise it puts into the hooks.
type backend struct {
	store.Store
	mu       sync.Mutex
	requests []submit.Request
	err      error // answer of every call, where set
	waiting  chan struct{}
	waits    chan struct{} // is told of every Wait, where set
	live     []view.Live
	followed chan struct{} // Follow stays open until it closes, where set
	ready    Readiness
	timeout  time.Duration // of what is submitted
	cordons  []string

	marksFull bool // Mark takes none

	unreached []view.Unreached
	found     Findings
	view      Overview
	asked     [2]time.Time // the range of an overview
	more      store.More   // of Failures
	acts      []string     // what was done by whom
	bulk      Bulk
	remains   *view.Remains
	kept      time.Time
}

var worker0 = view.Worker{
	ID: "n1/go/0", Pool: "go", Node: "n1", Runtime: "go", Generation: 1, State: "ready", Health: "healthy",
	Grade: "healthy", Since: time.Unix(1_700_000_000, 0).UTC(), Report: json.RawMessage(`{"status":"healthy"}`),
}

func newBackend(t testing.TB) *backend {
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "troupe.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return &backend{Store: s, ready: Readiness{Ready: true}, more: store.MoreEnd}
}

func (b *backend) Submit(ctx context.Context, requests []submit.Request) ([]store.Submitted, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return nil, b.err
	}
	b.requests = append(b.requests, requests...)
	executions := make([]messages.Execution, len(requests))
	for i, r := range requests {
		executions[i] = messages.Execution{
			ID: messages.NewExecutionID(), Action: r.ActionRef, Version: "1.0.0", Pool: "go", Parameters: r.Parameters,
			Session: r.Session, Affinity: messages.Affinity(r.Affinity), Priority: 5, Labels: r.Labels, CreatedBy: r.CreatedBy,
			Trace: r.Trace, IdempotencyKey: r.IdempotencyKey, RequestHash: []byte(r.Parameters), RunAt: r.RunAt, Timeout: b.timeout,
		}
	}
	return b.Store.Submit(ctx, executions)
}

// SubmitEach submits one after the other.
func (b *backend) SubmitEach(ctx context.Context, requests []submit.Request) []Submission {
	made := make([]Submission, len(requests))
	for i := range requests {
		stored, err := b.Submit(ctx, requests[i:i+1])
		if made[i].Err = err; err == nil {
			made[i].Stored = stored[0]
		}
	}
	return made
}

// SubmitAwaited waits by Wait.
func (b *backend) SubmitAwaited(ctx context.Context, request submit.Request) (store.Submitted, Awaited, error) {
	stored, err := b.Submit(ctx, []submit.Request{request})
	if err != nil {
		return store.Submitted{}, nil, err
	}
	return stored[0], &awaited{b, stored[0].Execution.ID}, nil
}

type awaited struct {
	*backend
	id messages.ExecutionID
}

func (a *awaited) Wait(ctx context.Context) (messages.Execution, error) {
	return a.backend.Wait(ctx, a.id)
}

func (a *awaited) Leave() {}

func (b *backend) Get(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
	if b.err != nil {
		return messages.Execution{}, b.err
	}
	return b.Store.Get(ctx, id)
}

func (b *backend) Wait(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
	if b.waits != nil {
		b.waits <- struct{}{}
	}
	select {
	case <-b.waiting:
	case <-ctx.Done():
		return messages.Execution{}, ctx.Err()
	}
	return b.Get(context.WithoutCancel(ctx), id)
}

// bind places an execution of a session of pool go, which binds it.
func (b *backend) bind(t testing.TB, name string) messages.WorkerKey {
	inc := messages.NewIncarnation()
	require.NoError(t, b.Join(t.Context(), store.Node{Incarnation: inc, Name: "n", Version: "1"}, time.Hour))
	stored, err := b.Store.Submit(t.Context(), []messages.Execution{{
		ID: messages.NewExecutionID(), Action: "a.b", Version: "1", Pool: "go", Session: name, Affinity: messages.AffinityStrict,
	}})
	require.NoError(t, err)
	key := messages.WorkerKey{Incarnation: inc, Pool: "go", Slot: 1}
	_, err = b.Apply(t.Context(), []store.Change{&store.Place{
		ID: stored[0].Execution.ID, Worker: key, WorkerID: "n/go/1", PlacedBy: inc, ClaimWithin: time.Minute,
		Session: &store.SessionUse{Pool: "go", Session: name, Epoch: 1, Bind: true},
	}})
	require.NoError(t, err)
	return key
}

func (b *backend) SessionDetail(ctx context.Context, pool, name string) (view.SessionDetail, error) {
	one, err := b.Session(ctx, pool, name)
	return view.SessionDetail{Session: one, Queue: []view.SessionWork{{Action: "core.echo", Status: messages.Running}}}, err
}

func (b *backend) Session(ctx context.Context, pool, name string) (view.Session, error) {
	s, err := b.GetSession(ctx, pool, name)
	return view.Session{Session: s}, err
}

func (b *backend) SessionStates(ctx context.Context) ([]store.AsideState, error) {
	return b.AsideStates(ctx, 10)
}

func (b *backend) SessionState(ctx context.Context, pool, name string) (view.SessionState, error) {
	trouble, err := b.StateTrouble(ctx, pool, name)
	return view.SessionState{Pool: pool, Session: name, Aside: trouble.Aside}, err
}

func (b *backend) DropSessionState(ctx context.Context, pool, name, _ string) error {
	_, err := b.DropState(ctx, pool, name)
	return err
}

func (b *backend) EndSession(ctx context.Context, pool, name, by string) (view.Session, error) {
	v, err := b.Session(ctx, pool, name)
	if err == nil {
		_, err = b.Unbind(ctx, []store.Binding{{Pool: pool, Session: name, Epoch: v.Epoch, Worker: v.Worker}})
		b.cordons = append(b.cordons, "session "+pool+"/"+name+" by "+by)
	}
	return v, err
}

func (b *backend) Cancel(ctx context.Context, id messages.ExecutionID, by string) (messages.Execution, error) {
	e, err := b.Get(ctx, id)
	if err != nil {
		return e, err
	}
	_, err = b.Apply(ctx, []store.Change{&store.Cancel{ID: id, By: by}})
	if err != nil {
		return e, err
	}
	return b.Get(ctx, id)
}

func (b *backend) Retry(ctx context.Context, id messages.ExecutionID, key, by string) (store.Submitted, error) {
	e, err := b.Get(ctx, id)
	if err == nil && !e.Status.Terminal() {
		err = &messages.Problem{Code: messages.CodeNotRetriable, Message: "execution " + id.String() + " has not ended; cancel it first"}
	}
	if err != nil {
		return store.Submitted{}, err
	}
	return b.Store.Retry(ctx, id, messages.Execution{Action: e.Action, Pool: e.Pool, IdempotencyKey: key}, by)
}

func (b *backend) RetryAnswer(_ context.Context, e *messages.Execution) view.Retry {
	return view.Retry{As: e.RetriedAs, WhyNot: "max_retries_reached", Message: "no retry follows"}
}

func (b *backend) Follow(ctx context.Context, _ messages.ExecutionID, each func(view.Live) error) error {
	for _, l := range b.live {
		if err := each(l); err != nil {
			return err
		}
	}
	if b.followed == nil {
		return nil
	}
	select {
	case <-b.followed:
		return store.ErrUnavailable
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *backend) Why(ctx context.Context, id messages.ExecutionID) (view.Explanation, error) {
	e, err := b.Get(ctx, id)
	return view.Explanation{Execution: id, Status: e.Status, Reason: "all_busy", Message: "all workers of pool go are busy"}, err
}

func (b *backend) Workers(_ context.Context, pool, node string) (view.Workers, error) {
	if pool != "" && pool != "go" || node == "none" {
		return view.Workers{}, nil
	}
	var all []view.Worker
	for _, slot := range []int{10, 2, 0, 1} {
		w := worker0
		w.ID = messages.WorkerID(fmt.Sprintf("n1/go/%d", slot))
		all = append(all, w)
	}
	return view.Workers{Workers: all, Unreached: b.unreached}, nil
}

func (b *backend) Worker(_ context.Context, id messages.WorkerID) (view.WorkerDetail, error) {
	if id != worker0.ID {
		return view.WorkerDetail{}, store.ErrNotFound
	}
	return view.WorkerDetail{Worker: worker0, History: []store.WorkerEvent{
		{Generation: 1, At: worker0.Since, From: "initializing", To: "ready", Reason: "init_complete", Lasted: 1500 * time.Microsecond}}}, nil
}

func (b *backend) Timeline(ctx context.Context, id messages.ExecutionID, part timeline.Part) (timeline.Timeline, error) {
	e, err := b.Get(ctx, id)
	_, all, left := timeline.Links(nil, &e, part.Links, false)
	return timeline.Of(&timeline.Record{Now: e.RequestedAt.Add(time.Second), Execution: e, From: part.From, To: part.To, Retries: all, LeftOut: left}), err
}

func (b *backend) LineAt(ctx context.Context, id messages.ExecutionID, at time.Time) (view.PastLine, error) {
	_, err := b.Get(ctx, id)
	return view.PastLine{Execution: id, At: at, Cause: "workers_busy", Evidence: "pool shell: workers busy", Line: &view.Line{Ahead: 3, Of: "pool"}}, err
}

func (b *backend) Remains(_ context.Context, id messages.ExecutionID) (view.Remains, error) {
	if b.remains == nil {
		return view.Remains{}, nil
	}
	return *b.remains, nil
}

func (b *backend) KeptFrom() time.Time { return b.kept }

func (b *backend) Journal(ctx context.Context, q store.JournalQuery) (store.JournalPage, error) {
	return b.ReadJournal(ctx, q)
}

func (b *backend) Mark(e messages.JournalEntry) bool {
	if b.marksFull {
		return false
	}
	e.Incarnation, e.Number = messages.NewIncarnation(), 1
	if err := b.AppendJournal(context.Background(), []messages.JournalEntry{e}); err != nil {
		panic(err)
	}
	return true
}

func (b *backend) Ledger(_ context.Context, from, to time.Time) (*rollup.Ledger, error) {
	l, around := rollup.NewLedger(from, to, []rollup.Requested{{Minute: from, Status: messages.Completed, N: 3}})
	l.Compare(9, around, rollup.Deleted{N: 4}, time.Time{})
	return l, nil
}

func (b *backend) Series(_ context.Context, q rollup.Query) (*rollup.Series, error) {
	s := rollup.NewSeries(q)
	s.Add(&rollup.Row{Minute: q.From.Truncate(time.Minute).Add(time.Minute), Key: rollup.Key{Pool: "go", Status: messages.Completed}, N: 3})
	return s.Done(), b.err
}

func (b *backend) Differences(_ context.Context, from, to time.Time) (*differences.Differences, error) {
	d := differences.New(rollup.Compare(from, to, to, time.Time{}))
	d.Row(&rollup.Row{Minute: d.From, Key: rollup.Key{Pool: "go", Action: "core.fail", Status: messages.Failed, Code: "boom"}, N: 3})
	return d.Done(), b.err
}

func (b *backend) Findings() Findings { return b.found }

func (b *backend) Overview(_ context.Context, from, to time.Time) Overview {
	b.asked = [2]time.Time{from, to}
	return b.view
}

// Failures groups one page.
func (b *backend) Failures(ctx context.Context, f store.Filter, by failures.By) (*failures.Groups, store.Page, error) {
	f.Limit = 1000
	page, err := b.List(ctx, f)
	groups := failures.NewGroups(by)
	for i := range page.Executions {
		groups.Add(&page.Executions[i])
	}
	return groups, store.Page{More: b.more, Searched: page.Searched}, err
}

// Facets counts one page.
func (b *backend) Facets(ctx context.Context, f store.Filter, fields []facets.Field) (*facets.Counts, store.Page, error) {
	f.Limit = 1000
	page, err := b.List(ctx, f)
	counts := facets.New(facets.List, fields)
	for i := range page.Executions {
		counts.Add(&page.Executions[i])
	}
	return counts, store.Page{More: b.more, Searched: page.Searched}, err
}

func (b *backend) Fleet(context.Context) (*keyframe.Fleet, []view.Unreached, error) {
	cells := keyframe.Cells{Node: "a", Name: "go", Slots: "rb", Grades: "hh", Generations: []messages.Generation{1, 2}}
	f := &keyframe.Fleet{At: time.Unix(0, 0), Nodes: []keyframe.FleetNode{{Name: "a", State: "active"}}, Pools: []keyframe.Cells{cells}}
	return f, b.unreached, b.err
}

func (b *backend) FleetAt(_ context.Context, at time.Time) (*keyframe.Fleet, error) {
	f := keyframe.At(at, &keyframe.Records{})
	return f, b.err
}

func (b *backend) Runs(_ context.Context, id messages.WorkerID) (view.WorkerRuns, error) {
	return view.WorkerRuns{Worker: id, Source: view.RunsMemory, Runs: []view.Run{{Action: "core.echo", Status: messages.Failed, Code: "boom"}}}, nil
}

func (b *backend) ProbeWorker(ctx context.Context, id messages.WorkerID, _ string) (view.WorkerDetail, error) {
	return b.Worker(ctx, id)
}

func (b *backend) note(ctx context.Context, known bool, text string) error {
	if !known {
		return store.ErrNotFound
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cordons = append(b.cordons, text)
	return ctx.Err()
}

func (b *backend) CordonWorker(ctx context.Context, id messages.WorkerID, cordoned bool, by string) error {
	return b.note(ctx, id == worker0.ID, fmt.Sprint("worker ", id, " ", cordoned, " by ", by))
}

func (b *backend) KillWorker(ctx context.Context, id messages.WorkerID, by string) error {
	return b.note(ctx, id == worker0.ID, fmt.Sprint("kill ", id, " by ", by))
}

func (b *backend) Pools(_ context.Context, node string) (view.Pools, error) {
	if node == "none" {
		return view.Pools{}, NotFound("node", node)
	}
	return view.Pools{Pools: []view.Pool{{Name: "go", Runtime: "go", Workers: 4, Ready: 4}}, Unreached: b.unreached}, nil
}

func (b *backend) Pool(_ context.Context, name string) (view.PoolDetail, error) {
	if name != "go" {
		return view.PoolDetail{}, store.ErrNotFound
	}
	return view.PoolDetail{Pool: view.Pool{Name: name}, Slots: []view.SlotCount{{State: "ready", N: 4}}, Queues: []view.PoolQueue{}}, nil
}

func (b *backend) CordonPool(ctx context.Context, pool string, cordoned bool, by string) error {
	return b.note(ctx, pool == "go", fmt.Sprint("pool ", pool, " ", cordoned, " by ", by)+view.ReasonOf(ctx))
}

func (b *backend) Reach(context.Context) ([]view.Sights, []view.Unreached, error) {
	return []view.Sights{{Node: "n1", Others: []view.Sight{{Node: "n2", Reach: "reached"}}}}, []view.Unreached{{Node: "n2", Why: "it is away"}}, nil
}

func (b *backend) Nodes(context.Context) ([]view.Node, error) {
	return []view.Node{{Node: store.Node{Incarnation: messages.NewIncarnation(), Name: "n1", State: store.NodeActive}, Reach: "self"}}, nil
}

func (b *backend) CordonNode(ctx context.Context, id string, cordoned bool, by string) error {
	return b.note(ctx, id == "n1", fmt.Sprint("node ", id, " ", cordoned, " by ", by))
}

func (b *backend) DrainNode(ctx context.Context, id, by string) error {
	return b.note(ctx, id == "n1", "drain "+id+" by "+by)
}

func (b *backend) Sessions(ctx context.Context, f store.SessionFilter, after string, limit int) ([]store.Session, error) {
	return b.ListSessions(ctx, f, after, limit)
}

func (b *backend) Actions(context.Context) ([]messages.Action, error) {
	return []messages.Action{{Ref: "core.echo", Pack: "core", Version: "1.0.0", Runtime: "go", Pool: "go",
		Timeout: 90 * time.Second, Secrets: []string{"password"}, WaitForWorker: true}}, nil
}

func (b *backend) DeadLetters() store.DeadLetters { return b.Store }

func (b *backend) RequeueDeadLetter(ctx context.Context, id int64, by string) (store.Submitted, error) {
	d, err := b.GetDeadLetter(ctx, id)
	if err != nil {
		return store.Submitted{}, err
	}
	b.acts = append(b.acts, "requeue by "+by)
	e, err := b.Get(ctx, d.Execution)
	return store.Submitted{Execution: e}, err
}

func (b *backend) DiscardDeadLetter(ctx context.Context, id int64, by string) (store.DeadLetter, error) {
	b.acts = append(b.acts, "discard by "+by+view.ReasonOf(ctx))
	if err := b.ResolveDeadLetter(ctx, id, "discarded"); err != nil {
		return store.DeadLetter{}, err
	}
	return b.GetDeadLetter(ctx, id)
}

func (b *backend) Reload(_ context.Context, by string) (ReloadReport, error) {
	b.acts = append(b.acts, "reload by "+by)
	return ReloadReport{Packs: []string{"core"}, Added: []string{"core.sleep"}}, nil
}

func (b *backend) Ready(context.Context) Readiness { return b.ready }

// Redact hides every password, whatever the action.
func (b *backend) Redact(_ string, parameters json.RawMessage) json.RawMessage {
	var m map[string]any
	if json.Unmarshal(parameters, &m) != nil {
		return nil
	}
	if _, ok := m["password"]; !ok {
		return parameters
	}
	m["password"] = "(secret)"
	out, _ := json.Marshal(m)
	return out
}

// ask sends one request straight to the handler, as from this machine.
func ask(t testing.TB, h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	r.RemoteAddr, r.Host = "127.0.0.1:4711", "127.0.0.1:7070"
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// read decodes an answer and checks what every answer must be.
func read[T any](t testing.TB, w *httptest.ResponseRecorder, status int) T {
	t.Helper()
	require.Equal(t, status, w.Code, w.Body.String())
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	var v T
	dec := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&v), w.Body.String())
	return v
}

// refused checks that the answer is an error of the given status and code whose message holds the text.
func refused(t testing.TB, w *httptest.ResponseRecorder, status int, code messages.Code, text string) {
	t.Helper()
	e := read[form.ErrorBody](t, w, status).Error
	require.Equal(t, string(code), e.Code, e.Message)
	require.Contains(t, e.Message, text)
}

func (b *backend) Webhooks(ctx context.Context, q store.WebhookQuery) ([]messages.WebhookRecord, error) {
	return b.ListWebhooks(ctx, q)
}

// Bulk implements Backend.
func (b *backend) Bulk() Bulk { return b.bulk }
