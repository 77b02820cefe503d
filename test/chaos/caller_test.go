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

// caller is a client that submits, cancels and waits. It sends each submit with an idempotency key and repeats each call until it
// is answered. It logs its calls and the answers.
type caller struct {
	node   *node
	others []*node // further nodes; the caller uses all of them in turn
	// patience, if set, is the timeout of one try: a frozen node does not answer.
	patience time.Duration
	// lossTime, if set, is the longest wait for one outcome: a program with a planted fault may lose executions.
	lossTime time.Duration
	turn     atomic.Int64
	// heard, if set, is called with each outcome and the time of its submit. Many callers call it at the same time.
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

// pause is the time between two tries of a call that got no answer. With several nodes it is longer, because they all wait for
// the same server.
func (c *caller) pause() time.Duration {
	if len(c.others) > 0 {
		return 100 * time.Millisecond
	}
	return 20 * time.Millisecond
}

// triesMax bounds the tries of one call. With this pause they take longer than any start of a node.
const triesMax = 5000

// untilAnswered repeats a call until the node answers it. An error answer is returned, unless it says that the node is starting or
// stopping.
func (c *caller) untilAnswered(ctx context.Context, call chaos.Call, try func(context.Context, *client.Client) error) error {
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

// once makes one try, at the next node in turn.
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

// work is one submission and the outcomes that it may have.
type work struct {
	submit.Request
	want  []messages.Status
	codes []messages.Code
}

// submit returns the id of the stored execution. It repeats the call as often as necessary.
func (c *caller) submit(ctx context.Context, w *work) (messages.ExecutionID, error) {
	call := chaos.Call{Op: "submit", State: chaos.Invoked, Key: w.IdempotencyKey, Want: w.want, Codes: w.codes}
	c.note(call)
	var view form.ExecutionView
	err := c.untilAnswered(ctx, call, func(ctx context.Context, node *client.Client) error {
		return node.Post(ctx, "/api/v1/executions", &w.Request, &view)
	})
	if err != nil {
		return view.ID, fmt.Errorf("submit %s %s: %w", w.ActionRef, w.IdempotencyKey, err)
	}
	call.State, call.ID = chaos.OK, view.ID
	c.note(call)
	return view.ID, nil
}

// cancel cancels an execution.
func (c *caller) cancel(ctx context.Context, id messages.ExecutionID) error {
	call := chaos.Call{Op: "cancel", State: chaos.Invoked, ID: id}
	c.note(call)
	var view form.ExecutionView
	err := c.untilAnswered(ctx, call, func(ctx context.Context, node *client.Client) error {
		return node.Post(ctx, "/api/v1/executions/"+id.String()+"/cancel", nil, &view)
	})
	if err != nil {
		return fmt.Errorf("cancel %s: %w", id, err)
	}
	call.State, call.Found = chaos.OK, view.Status
	c.note(call)
	return nil
}

// waits is the timeout of one long poll, in seconds. It is short with several nodes, because the polled node may be killed.
func (c *caller) waits() string {
	if len(c.others) > 0 {
		return "4"
	}
	return "20"
}

// wait returns the execution when it has ended, or an error after lossTime.
func (c *caller) wait(ctx context.Context, id messages.ExecutionID) (form.ExecutionView, error) {
	for began := time.Now(); ; {
		var view form.ExecutionView
		err := c.untilAnswered(ctx, chaos.Call{Op: "wait", State: chaos.Invoked, ID: id}, func(ctx context.Context, node *client.Client) error {
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
