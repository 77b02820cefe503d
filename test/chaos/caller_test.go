package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/test/chaos"
)

// caller submits, cancels and waits as a careful program would: under idempotency keys, again and again until it is
// answered. It writes down what it asked and what it was told.
type caller struct {
	node   *node
	others []*node // asked in turn with node, where there are more
	// patience bounds one try, where it is set: a node that is frozen says nothing.
	patience time.Duration
	// lossTime bounds the wait for one outcome, where it is set: some never come from a program that loses work.
	lossTime time.Duration
	turn     atomic.Int64
	// heard, where set, is told of each outcome, and when its work was begun. It is called by many callers at a time.
	heard func(*work, time.Time, *form.ExecutionView)

	mu    sync.Mutex
	calls []chaos.Call
	again int // calls that were repeated because no answer came
}

func (c *caller) note(call chaos.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
	if call.State == chaos.Unknown {
		c.again++
	}
}

// pause is the time between two tries of a call that was not answered. With more than one node it is longer: what both
// wait for is a server.
func (c *caller) pause() time.Duration {
	if len(c.others) > 0 {
		return 100 * time.Millisecond
	}
	return 20 * time.Millisecond
}

// triesMax bounds the tries of one call: at this pause, longer than any boot.
const triesMax = 5000

// insist repeats a call until the node answers it. An answer that is an error is one, unless the node is only starting
// or stopping.
func (c *caller) insist(ctx context.Context, call chaos.Call, try func(context.Context, *client.Client) error) error {
	for range triesMax {
		err := c.once(ctx, try)
		var answer *client.Error
		if err == nil || errors.As(err, &answer) && answer.Status < http.StatusInternalServerError && answer.Status != http.StatusTooManyRequests {
			return err
		}
		call.State = chaos.Unknown
		c.note(call)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(c.pause()):
		}
	}
	return fmt.Errorf("%s %s: no answer in %d tries", call.Op, call.Key, triesMax)
}

// once makes one try, of a node whose turn it is.
func (c *caller) once(ctx context.Context, try func(context.Context, *client.Client) error) error {
	if c.patience > 0 {
		limited, cancel := context.WithTimeout(ctx, c.patience)
		defer cancel()
		ctx = limited
	}
	node := c.node
	if at := int(c.turn.Add(1)) % (len(c.others) + 1); at > 0 {
		node = c.others[at-1]
	}
	return try(ctx, node.client.Load())
}

// work is one thing that a caller has done.
type work struct {
	submit.Request
	want  []messages.Status
	codes []messages.Code
}

// submit returns the id under which the work is stored, whatever was killed meanwhile.
func (c *caller) submit(ctx context.Context, w *work) (messages.ExecutionID, error) {
	call := chaos.Call{Op: "submit", State: chaos.Invoked, Key: w.IdempotencyKey, Want: w.want, Codes: w.codes}
	c.note(call)
	var view form.ExecutionView
	err := c.insist(ctx, call, func(ctx context.Context, node *client.Client) error {
		return node.Post(ctx, "/api/v1/executions", &w.Request, &view)
	})
	if err != nil {
		return view.ID, fmt.Errorf("submit %s %s: %w", w.ActionRef, w.IdempotencyKey, err)
	}
	call.State, call.ID = chaos.OK, view.ID
	c.note(call)
	return view.ID, nil
}

// cancel asks for the end of an execution.
func (c *caller) cancel(ctx context.Context, id messages.ExecutionID) error {
	call := chaos.Call{Op: "cancel", State: chaos.Invoked, ID: id}
	c.note(call)
	var view form.ExecutionView
	err := c.insist(ctx, call, func(ctx context.Context, node *client.Client) error {
		return node.Post(ctx, "/api/v1/executions/"+id.String()+"/cancel", nil, &view)
	})
	if err != nil {
		return fmt.Errorf("cancel %s: %w", id, err)
	}
	call.State, call.Found = chaos.OK, view.Status
	c.note(call)
	return nil
}

// waits is how long one question may stay open, in seconds: with more than one node not long, for one may go that has
// been asked.
func (c *caller) waits() string {
	if len(c.others) > 0 {
		return "4"
	}
	return "20"
}

// wait returns the execution once it has ended, or counts as lost.
func (c *caller) wait(ctx context.Context, id messages.ExecutionID) (form.ExecutionView, error) {
	for began := time.Now(); ; {
		var view form.ExecutionView
		err := c.insist(ctx, chaos.Call{Op: "wait", State: chaos.Invoked, ID: id}, func(ctx context.Context, node *client.Client) error {
			return node.Get(ctx, "/api/v1/executions/"+id.String()+"/wait?timeout_seconds="+c.waits(), &view)
		})
		if err != nil || view.Status.Terminal() || c.lossTime > 0 && time.Since(began) > c.lossTime {
			return view, err
		}
		if ctx.Err() != nil {
			return view, fmt.Errorf("execution %s still stands in %s: %w", id, view.Status, ctx.Err())
		}
	}
}
