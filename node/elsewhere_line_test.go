package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/rules/interest"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// postOffice is the network of a node with one other. Its posts take 10 ms.
type postOffice struct {
	*elsewhere
	other  messages.Incarnation
	err    error     // of each post
	reply  wire.Body // to each post
	mu     sync.Mutex
	posts  []int // how much each had
	counts map[string]int
}

func openOffice(t *testing.T) *postOffice {
	o := &postOffice{other: messages.NewIncarnation(), reply: wire.Ack{}, counts: map[string]int{}}
	o.elsewhere = newElsewhere(&base{incarnation: messages.NewIncarnation()}, actors.NewOutcomes(), func(result string, n int) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.counts[result] += n
	})
	o.reaches = func(messages.Incarnation) bool { return true }
	o.post = func(ctx context.Context, to messages.Incarnation, body wire.Body) (wire.Body, error) {
		require.Equal(t, o.other, to)
		o.posted(body)
		select {
		case <-time.After(10 * time.Millisecond):
			return o.reply, o.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	o.hear(&supervisor.NodeUp{Node: store.Node{Incarnation: o.other}})
	return o
}

func (o *postOffice) posted(body wire.Body) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch b := body.(type) {
	case wire.Await:
		o.posts = append(o.posts, len(b.Executions))
	case wire.Outcomes:
		o.posts = append(o.posts, len(b.Outcomes))
	}
}

// waits begins so many waits, and returns how much each post had until all was done.
func (o *postOffice) waits(n int) []int {
	for range n {
		o.ask(&messages.Execution{ID: messages.NewExecutionID(), Status: messages.Requested}, time.Second)
		synctest.Wait() // the first is on its way
	}
	return o.sent()
}

func (o *postOffice) sent() []int {
	time.Sleep(elsewhereTime / 4)
	synctest.Wait()
	posts := o.posts
	o.posts = nil
	return posts
}

// While one message is on its way, what comes goes in the next. What finds no room is dropped, and said so.
func TestWaitsShareMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := openOffice(t)
		defer o.close()
		require.Equal(t, []int{1}, o.waits(1))
		posts := o.waits(asksBounds.Items + 5)
		total := 0
		for _, n := range posts {
			total += n
			require.LessOrEqual(t, n, wire.AwaitMax)
		}
		require.LessOrEqual(t, len(posts), asksBounds.Items/wire.AwaitMax+2)
		require.Equal(t, total+o.counts["crowded"], asksBounds.Items+5)
		require.Equal(t, total+1, o.counts["asked"])
		o.ask(&messages.Execution{ID: messages.NewExecutionID(), Status: messages.Running, Worker: messages.WorkerKey{Incarnation: o.own}}, time.Second)
		require.Empty(t, o.sent(), "it runs here")
		o.hear(&supervisor.NodeDown{Node: store.Node{Incarnation: o.other}})
		require.Empty(t, o.waits(1), "there is no other")
	})
}

// A node that did not answer is left alone for a moment. One of another release is never asked again.
func TestANodeThatDoesNotAnswerIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply wire.Body
		err   error
		later []int // what is asked after a moment
	}{
		"it is silent":           {nil, context.DeadlineExceeded, []int{1}},
		"the connection is lost": {nil, peers.ErrLost, []int{1}},
		"it knows no waits":      {nil, fmt.Errorf("peer: %w", peers.ErrUnsupported), nil},
		"it has other fields":    {wire.Ack{Refused: "other"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := openOffice(t)
				defer o.close()
				o.reply, o.err = c.reply, c.err
				require.Equal(t, []int{1}, o.waits(3))
				require.Equal(t, 3, o.counts["failed"], "what waited behind it is dropped")
				o.reply, o.err = wire.Ack{}, nil
				require.Empty(t, o.waits(1), "not at once")
				time.Sleep(elsewhereQuiet)
				require.Equal(t, c.later, o.waits(1))
			})
		})
	}
}

// An outcome goes once to whoever has asked for it, and to nobody else; the end of the node ends what is being sent.
func TestOutcomesGoToWhoeverHasAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := openOffice(t)
		ids := make([]wire.Awaited, 3)
		for i := range ids {
			ids[i] = wire.Awaited{ID: messages.NewExecutionID(), For: 20 * time.Second}
		}
		want := func(by messages.Incarnation) {
			reply, err := o.asked(t.Context(), peers.Request{From: by, Proven: true}, wire.Await{Form: wire.OutcomeForm, Executions: ids})
			require.NoError(t, err)
			require.Equal(t, wire.Ack{}, reply)
		}
		ended := func(id messages.ExecutionID) []int {
			o.ended(&messages.Execution{ID: id, Status: messages.Completed})
			return o.sent()
		}
		_, err := o.asked(t.Context(), peers.Request{From: o.other}, wire.Await{Form: wire.OutcomeForm, Executions: ids})
		require.ErrorIs(t, err, errUnproven)
		_, err = o.told(t.Context(), peers.Request{From: o.other}, wire.Outcomes{})
		require.ErrorIs(t, err, errUnproven)
		want(messages.NewIncarnation())
		require.Empty(t, ended(ids[0].ID), "an unknown node is told nothing")
		want(o.other)
		require.Equal(t, []int{1}, ended(ids[0].ID))
		require.Empty(t, ended(ids[0].ID), "once")
		require.Empty(t, ended(messages.NewExecutionID()))
		o.over(ids[1].ID)
		require.Equal(t, []int{1}, ended(ids[1].ID), "the hint of an outcome may come before its node tells it")
		o.over(ids[2].ID)
		time.Sleep(interest.OverTime)
		require.Empty(t, ended(ids[2].ID), "another node has told it")
		require.Zero(t, o.wanted.Load())
		want(o.other)
		o.err = errors.New("lost")
		o.ended(&messages.Execution{ID: ids[0].ID, Status: messages.Completed})
		o.close()
		require.Equal(t, map[string]int{"sent": 2, "failed": 1, "crowded": 0}, o.counts)
		o.ended(&messages.Execution{ID: ids[1].ID, Status: messages.Completed})
		require.Equal(t, 2, o.counts["failed"], "the node has ended")
	})
}
