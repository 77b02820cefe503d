package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/test/servers"
)

// endReads counts the reads of executions that have ended. While it is deaf, it gives no hints, which have a node read what somebody waits for.
type endReads struct {
	store.Store
	deaf bool
	mu   sync.Mutex
	read map[messages.ExecutionID]int
	held map[messages.ExecutionID]func()
}

// hold has one read of an execution call a function before it returns.
func (s *endReads) hold(id messages.ExecutionID, call func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[id] = call
}

func (s *endReads) wrap(inner store.Store) store.Store {
	s.Store, s.read, s.held = inner, map[messages.ExecutionID]int{}, map[messages.ExecutionID]func(){}
	return s
}

func (s *endReads) Get(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
	e, err := s.Store.Get(ctx, id)
	s.mu.Lock()
	if e.Status.Terminal() {
		s.read[id]++
	}
	call := s.held[id]
	delete(s.held, id)
	s.mu.Unlock()
	if call != nil {
		call()
	}
	return e, err
}

func (s *endReads) Watch(ctx context.Context) (<-chan store.Hint, error) {
	if !s.deaf {
		return s.Store.Watch(ctx)
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// of is how often the outcome of an execution was read.
func (s *endReads) of(id messages.ExecutionID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read[id]
}

// apart are two nodes on one Postgres. Waits gives its workers nothing.
type apart struct {
	t           *testing.T
	runs, waits *kit
	reads       *endReads // of waits
	gate        *gate     // of the action held
}

// setApart starts them. Change is made to the configuration of both.
func setApart(t *testing.T, reads *endReads, change func(*node.Config)) *apart {
	t.Helper()
	servers.Unraced(t)
	p, url := &apart{t: t, reads: reads, gate: newGate()}, database(t)
	handlers, policies := endingsOf(&p.runs)
	handlers["held"], policies["held"] = p.gate.run, ""
	pack := goPack(t, policies)
	begin := func(name string, more func(*node.Config)) *kit {
		return lab(t, func(c *node.Config) {
			paired(c, url)
			handle(handlers)(c)
			c.Name, c.Listen, c.Workers["go"], c.Peers.Listen = name, "127.0.0.1:0", 8, "127.0.0.1:0"
			change(c)
			more(c)
		}, pack)
	}
	p.runs = begin("runs", func(*node.Config) {})
	p.waits = begin("waits", func(c *node.Config) { c.WrapStore = reads.wrap })
	require.NoError(t, p.waits.CordonNode(t.Context(), "waits", true))
	p.hold(true)
	return p
}

// hold has the node that runs begin nothing, or what waits.
func (p *apart) hold(on bool) {
	p.t.Helper()
	require.NoError(p.t, p.runs.CordonNode(p.t.Context(), "runs", on))
}

// meet waits until the nodes reach each other.
func (p *apart) meet() {
	p.t.Helper()
	for _, k := range []*kit{p.runs, p.waits} {
		k.until("it reaches the other node", func() bool {
			info, ok := k.Registry().Get("troupe/peers")
			return ok && info.State == "1 of 1 reached"
		})
	}
}

// wait begins to wait on the other node, and returns a function that returns what that is answered.
func (p *apart) wait(id messages.ExecutionID) func() messages.Execution {
	type answer struct {
		e   messages.Execution
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		ctx, cancel := context.WithTimeout(p.t.Context(), patience)
		defer cancel()
		e, err := p.waits.Wait(ctx, id)
		answers <- answer{e, err}
	}()
	return func() messages.Execution {
		p.t.Helper()
		a := <-answers
		require.NoError(p.t, a.err)
		require.True(p.t, a.e.Status.Terminal(), "%s", a.e.Status)
		return a.e
	}
}

// waitHTTP is wait by the HTTP API.
func (p *apart) waitHTTP(id messages.ExecutionID) func() map[string]any {
	answers := make(chan map[string]any, 1)
	go func() {
		defer close(answers)
		answers <- p.waits.json("GET", "/api/v1/executions/"+id.String()+"/wait?timeout_seconds=60", "")
	}()
	return func() map[string]any { return <-answers }
}

// changes are those that end an execution which has not begun, by the kind of its outcome.
func (p *apart) changes() map[string]func(messages.ExecutionID) store.Change {
	ends := func(o messages.Outcome) func(messages.ExecutionID) store.Change {
		return func(id messages.ExecutionID) store.Change { return &store.End{ID: id, Outcome: o} }
	}
	return map[string]func(messages.ExecutionID) store.Change{
		"dead letter": ends(messages.Outcome{Status: messages.Failed, Error: &messages.Error{
			Code: messages.CodeQueueTimeout, Message: "it expired\x00 <é>", Class: "dead_lettered", FailedBy: "dead_letter", NoRetry: "max_retries is 0",
			Details: json.RawMessage(`{"queue": "q",  "n": 1.0}`), WorkerFault: true, Retriable: new(bool), Stderr: "tail", Exit: "exit status 3",
		}}),
		"abandoned": ends(messages.Outcome{Status: messages.Abandoned, Error: &messages.Error{Code: messages.CodeWorkerLost, Message: "lost"}}),
		"timed out": ends(messages.Outcome{Status: messages.TimedOut, Error: &messages.Error{Code: messages.CodeTimeout, Message: "late"}}),
		"completed": ends(messages.Outcome{Status: messages.Completed, Result: json.RawMessage(`{ "b":1.0, "a":"<é>", "a":null }`)}),
		"null":      ends(messages.Outcome{Status: messages.Completed, Result: json.RawMessage(`null`)}),
		"text":      ends(messages.Outcome{Status: messages.Completed, Result: json.RawMessage(`"a\u0000\u2028é"`)}),
		"cancelled": func(id messages.ExecutionID) store.Change { return &store.Cancel{ID: id, By: "ana"} },
	}
}

// A caller who waits on another node than the one that stores the outcome is answered with what that node tells, without a read of the
// outcome; and it is, field by field, what a read gives.
func TestWhatAnotherNodeIsToldIsWhatTheStoreHas(t *testing.T) {
	t.Parallel()
	p := setApart(t, &endReads{deaf: true}, func(*node.Config) {})
	p.runs.Unhurried()
	p.waits.Unhurried()
	p.meet()
	type waiting struct {
		id   messages.ExecutionID
		told func() messages.Execution
		http func() map[string]any
	}
	all := map[string]waiting{}
	begin := func(name, ref string) messages.ExecutionID {
		request := ask("t."+ref, object{"of": name})
		request.Labels, request.Session = map[string]string{"of": name}, "s-"+name
		stored, err := p.runs.Submit(t.Context(), []submit.Request{request})
		require.NoError(t, err)
		id := stored[0].Execution.ID
		all[name] = waiting{id, p.wait(id), p.waitHTTP(id)}
		return id
	}
	ids := map[string]messages.ExecutionID{}
	for name := range p.changes() {
		ids[name] = begin(name, "held")
	}
	for name := range endings {
		if name != "large" {
			begin("run "+name, name)
		}
	}
	begin("run "+cancels, cancels)
	p.asks(2 * len(all))
	require.Equal(t, len(all), p.runs.Wanted())
	for name, change := range p.changes() {
		results, err := p.runs.Record(t.Context(), "go", change(ids[name]))
		require.NoError(t, err)
		require.Equal(t, store.Applied, results[0].Verdict, name)
	}
	p.hold(false)
	for name, w := range all {
		told, answered := w.told(), w.http()
		require.Zero(t, p.reads.of(w.id), "%s: the outcome is not read", name)
		require.Equal(t, p.waits.get(w.id), told, name)
		read := p.waits.json("GET", "/api/v1/executions/"+w.id.String(), "")
		delete(read, "retry") // a retry goes on meanwhile
		delete(answered, "retry")
		require.Equal(t, read, answered, name)
	}
	require.Zero(t, p.runs.Wanted(), "what is told is forgotten")
	require.Contains(t, p.waits.scrape(), fmt.Sprintf("troupe_awaited_outcomes_total{result=\"taken\"} %d\n", len(all)))
	p.submitsAndWaits()
}

// submitsAndWaits submits and waits in one call on the node that runs nothing.
func (p *apart) submitsAndWaits() {
	p.t.Helper()
	stored, awaited, err := p.waits.SubmitAwaited(p.t.Context(), ask("t.held", object{"a": 1}))
	require.NoError(p.t, err)
	defer awaited.Leave()
	p.runs.until("it is wanted", func() bool { return p.runs.Wanted() == 1 })
	close(p.gate.open)
	told, err := awaited.Wait(p.t.Context())
	require.NoError(p.t, err)
	require.Equal(p.t, messages.Completed, told.Status)
	require.Zero(p.t, p.reads.of(told.ID))
	read := p.waits.get(stored.Execution.ID)
	require.NotNil(p.t, read.Parameters)
	told.Parameters = read.Parameters // whoever submits knows them
	require.Equal(p.t, read, told)
}

// An outcome that cannot be told whole, or that nobody has asked for in time, is read from the store once its hint comes. What is told twice,
// late or wrongly changes no answer.
func TestWhatIsNotToldIsRead(t *testing.T) {
	t.Parallel()
	p := setApart(t, &endReads{}, func(*node.Config) {})
	p.runs.Unhurried()
	p.waits.Unhurried()
	p.meet()
	t.Run("it is too long", func(t *testing.T) {
		id := p.runs.submit("t.large", object{"a": 1})
		told := p.wait(id)
		p.runs.until("it is wanted", func() bool { return p.runs.Wanted() == 1 })
		p.hold(false)
		require.Equal(t, p.runs.await(id), told())
		require.NotZero(t, p.reads.of(id))
		require.Contains(t, p.runs.scrape(), `troupe_awaited_outcomes_total{result="too_large"} 1`+"\n")
	})
	t.Run("it is stored before its wait is known", func(t *testing.T) {
		looked, ended := make(chan struct{}), make(chan struct{})
		id := p.runs.submit("t.held", object{"a": 1})
		p.reads.hold(id, func() {
			close(looked)
			<-ended
		})
		told := p.wait(id)
		<-looked
		close(p.gate.open)
		want := p.runs.await(id)
		close(ended)
		require.Equal(t, want, told())
		require.NotZero(t, p.reads.of(id))
		p.asks(2)
	})
	require.NotContains(t, p.runs.scrape(), `troupe_awaited_outcomes_total{result="sent"}`)
	t.Run("another is told late", func(t *testing.T) {
		want := p.runs.run("t.completed", object{"a": 1})
		wrong := want
		wrong.Result = json.RawMessage(`"another"`)
		o, err := wire.EncodeOutcome(&wrong)
		require.NoError(t, err)
		require.Equal(t, wire.Ack{}, p.asked(p.runs, p.waits, wire.Outcomes{Outcomes: []wire.Outcome{o, o}}))
		require.Equal(t, want, p.waits.await(want.ID))
		o.Record = []byte(`{}`)
		require.Contains(t, p.asked(p.runs, p.waits, wire.Outcomes{Outcomes: []wire.Outcome{o}}).(wire.Ack).Refused, "no id")
	})
	t.Run("the other node has other fields, or has ended", func(t *testing.T) {
		before := p.runs.Wanted() // the wait that came too late may be noted there still
		wants := wire.Await{Form: wire.OutcomeForm + 1, Executions: []wire.Awaited{{ID: messages.NewExecutionID(), For: time.Minute}}}
		require.Contains(t, p.asked(p.waits, p.runs, wants).(wire.Ack).Refused, "other fields")
		require.Equal(t, before, p.runs.Wanted())
		wants.Form = wire.OutcomeForm
		require.Equal(t, wire.Ack{}, p.asked(p.waits, p.runs, wants))
		require.NotZero(t, p.runs.Wanted())
		require.NoError(t, p.waits.stop())
		p.runs.until("what it wanted is forgotten", func() bool { return p.runs.Wanted() == 0 })
	})
}

// asks waits until so many waits were told to the node that runs.
func (p *apart) asks(n int) {
	p.t.Helper()
	p.waits.until("it has asked", func() bool {
		return contains(p.waits.scrape(), fmt.Sprintf("troupe_awaited_outcomes_total{result=\"asked\"} %d\n", n))
	})
}

// asked is what one node answers to another.
func (p *apart) asked(from, to *kit, body wire.Body) wire.Body {
	p.t.Helper()
	reply, err := from.AskPeer(p.t.Context(), to.Incarnation(), messages.Placement{}, body)
	require.NoError(p.t, err)
	return reply
}

// Nodes that do not reach each other answer their callers all the same.
func TestAWaitOnANodeThatReachesNoOther(t *testing.T) {
	t.Parallel()
	p := setApart(t, &endReads{}, func(c *node.Config) { c.Peers = peers.Settings{Listen: peers.Off} })
	p.runs.until("the node that runs knows the other", func() bool { return strings.Contains(p.runs.log.String(), "node is up: node=waits") })
	id := p.runs.submit("t.completed", object{"a": 1})
	told := p.wait(id)
	p.hold(false)
	require.Equal(t, p.runs.await(id), told())
	require.NotZero(t, p.reads.of(id))
}
