package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/supervisor/api"
	"github.com/troupe-run/troupe/test/chaos"
)

// caller submits, cancels and waits as a careful program would: under idempotency keys, again and again until it is
// answered. It writes down what it asked and what it was told.
type caller struct {
	node *node

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

// pause between two tries of a call that was not answered.
const pause = 20 * time.Millisecond

// triesMax bounds the tries of one call: at this pause, longer than any boot.
const triesMax = 5000

// insist repeats a call until the node answers it. An answer that is an error is one, unless the node is only starting
// or stopping.
func (c *caller) insist(ctx context.Context, call chaos.Call, try func(*client.Client) error) error {
	for range triesMax {
		err := try(c.node.client.Load())
		var answer *client.Error
		if err == nil || errors.As(err, &answer) && answer.Status < http.StatusInternalServerError && answer.Status != http.StatusTooManyRequests {
			return err
		}
		call.State = chaos.Unknown
		c.note(call)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	return fmt.Errorf("%s %s: no answer in %d tries", call.Op, call.Key, triesMax)
}

// work is one thing that a caller has done.
type work struct {
	api.SubmitRequest
	want  []messages.Status
	codes []messages.Code
}

// submit returns the id under which the work is stored, whatever was killed meanwhile.
func (c *caller) submit(ctx context.Context, w *work) (messages.ExecutionID, error) {
	call := chaos.Call{Op: "submit", State: chaos.Invoked, Key: w.IdempotencyKey, Want: w.want, Codes: w.codes}
	c.note(call)
	var view api.ExecutionView
	err := c.insist(ctx, call, func(node *client.Client) error {
		return node.Post(ctx, "/api/v1/executions", &w.SubmitRequest, &view)
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
	var view api.ExecutionView
	err := c.insist(ctx, call, func(node *client.Client) error {
		return node.Post(ctx, "/api/v1/executions/"+id.String()+"/cancel", nil, &view)
	})
	if err != nil {
		return fmt.Errorf("cancel %s: %w", id, err)
	}
	call.State, call.Found = chaos.OK, view.Status
	c.note(call)
	return nil
}

// wait returns the execution once it has ended.
func (c *caller) wait(ctx context.Context, id messages.ExecutionID) (api.ExecutionView, error) {
	for {
		var view api.ExecutionView
		err := c.insist(ctx, chaos.Call{Op: "wait", State: chaos.Invoked, ID: id}, func(node *client.Client) error {
			return node.Get(ctx, "/api/v1/executions/"+id.String()+"/wait?timeout_seconds=20", &view)
		})
		if err != nil || view.Status.Terminal() {
			return view, err
		}
		if ctx.Err() != nil {
			return view, fmt.Errorf("execution %s still stands in %s: %w", id, view.Status, ctx.Err())
		}
	}
}
