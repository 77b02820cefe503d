package check

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
)

func testHello(ctx context.Context, c *checker) (string, error) {
	talk, err := start(ctx, c.launcher, c.argv, c.opts)
	if err != nil {
		c.noHello = err
		return "", err
	}
	c.talk = talk
	detail, err := c.hello(ctx, talk)
	c.noHello = err
	return detail, err
}

// simple tests that a command is answered with a result.
func simple(command string, args map[string]any) func(context.Context, *checker) (string, error) {
	return func(ctx context.Context, c *checker) (string, error) {
		talk, err := c.open(ctx)
		if err != nil {
			return "", err
		}
		return "", c.must(ctx, talk, command, args)
	}
}

// must sends a request and expects a result.
func (c *checker) must(ctx context.Context, talk *conversation, command string, args any) error {
	reply, err := talk.ask(ctx, command, args, c.opts.Patience)
	if err == nil && reply.Err != nil {
		err = fmt.Errorf("%s was answered with an error: %w", command, reply.Err)
	}
	return err
}

func testUnknown(ctx context.Context, c *checker) (string, error) {
	talk, err := c.open(ctx)
	if err != nil {
		return "", err
	}
	reply, err := talk.ask(ctx, "no_such_command", map[string]any{}, c.opts.Patience)
	switch {
	case err != nil:
		return "", err
	case reply.Err == nil:
		return "", fmt.Errorf("a command that does not exist got a result")
	case reply.Err.Code != "unknown_command":
		return "", fmt.Errorf("its error has code %q, want unknown_command", reply.Err.Code)
	}
	return "", nil
}

// execution returns the arguments of an execute. An empty session means none.
func (c *checker) execution(session string, epoch int) map[string]any {
	args := map[string]any{
		"execution": messages.NewExecutionID(), "attempt": 1, "action": c.opts.Action, "root": c.opts.Root,
		"entrypoint": c.opts.Entrypoint, "parameters": c.opts.Parameters, "session": nil, "deadline_ms": 60_000,
		"retry_count": 0, "trace": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	if c.opts.Action == "" {
		args["action"] = "check.none"
	}
	if session != "" {
		args["session"] = map[string]any{"id": session, "epoch": epoch, "lost": false, "hit": true}
	}
	return args
}

func testExecute(ctx context.Context, c *checker) (string, error) {
	talk, err := c.open(ctx)
	if err != nil {
		return "", err
	}
	return c.executed(ctx, talk, c.execution("", 0))
}

// executed runs one execution. It expects a result where the caller named an action.
func (c *checker) executed(ctx context.Context, talk *conversation, args map[string]any) (string, error) {
	reply, err := talk.ask(ctx, "execute", args, c.opts.InitTimeout)
	switch {
	case err != nil:
		return "", err
	case reply.Err == nil:
		return fmt.Sprintf("a result of %d bytes", len(reply.Result)), nil
	case c.opts.Action == "":
		return fmt.Sprintf("answered with %s; name an action with --action to see a result", reply.Err.Code), nil
	}
	return "", fmt.Errorf("action %s ended with an error: %w", c.opts.Action, reply.Err)
}

// busy is how long a run must last for the rules about requests during a run.
const busy = 300 * time.Millisecond

// begin starts a run that lasts, or returns an error when the run ends too early.
func (c *checker) begin(ctx context.Context, talk *conversation) (uint64, error) {
	args := c.execution("", 0)
	args["parameters"] = c.opts.BusyParameters
	id, err := talk.send("execute", args)
	if err != nil {
		return 0, err
	}
	if talk.wait(ctx, busy, func() bool { return talk.replies[id] > 0 }) == nil {
		return 0, untested{fmt.Sprintf("the run ended within %s: name an action that runs for seconds with --action", busy)}
	}
	return id, nil
}

func testBusyPing(ctx context.Context, c *checker) (string, error) {
	talk, err := c.open(ctx)
	if err != nil {
		return "", err
	}
	run, err := c.begin(ctx, talk)
	if err != nil {
		return "", err
	}
	began := time.Now()
	if err := c.must(ctx, talk, "ping", map[string]any{}); err != nil {
		return "", err
	}
	if talk.replies[run] > 0 {
		return "", untested{"the run ended before the ping was answered: name an action that runs longer with --action"}
	}
	took := time.Since(began)
	c.stop() // the run is not needed any more
	return fmt.Sprintf("after %s", took.Round(10*time.Microsecond)), nil
}

func testCancel(ctx context.Context, c *checker) (string, error) {
	talk, err := c.open(ctx)
	if err != nil {
		return "", err
	}
	run, err := c.begin(ctx, talk)
	if err != nil {
		return "", err
	}
	if err := c.must(ctx, talk, "cancel", map[string]any{"request": run}); err != nil {
		return "", err
	}
	reply, err := talk.answer(ctx, run, c.opts.Patience)
	switch {
	case err != nil:
		return "", fmt.Errorf("the cancelled run did not end: %w", err)
	case reply.Err == nil:
		return "the run ended with its result", nil
	case reply.Err.Code != messages.CodeCancelled:
		return "", fmt.Errorf("the cancelled run ended with code %q, want cancelled", reply.Err.Code)
	}
	return "", c.must(ctx, talk, "ping", map[string]any{})
}

// testSessions runs an execution in a session, another at a newer epoch, and ends the session.
func testSessions(ctx context.Context, c *checker) (string, error) {
	talk, err := c.open(ctx)
	if err != nil {
		return "", err
	}
	for epoch := 1; epoch <= 2; epoch++ {
		if _, err := c.executed(ctx, talk, c.execution("check", epoch)); err != nil {
			return "", err
		}
	}
	return "", c.must(ctx, talk, "end_session", map[string]any{"session": "check", "epoch": 2})
}

// testSnapshot moves a session from one epoch to the next, as a node does from one worker to another.
func testSnapshot(ctx context.Context, c *checker) (string, error) {
	talk, err := c.open(ctx)
	if err != nil {
		return "", err
	}
	if _, err := c.executed(ctx, talk, c.execution("check-snapshot", 1)); err != nil {
		return "", err
	}
	before, err := c.snapshot(ctx, talk, 1)
	if err != nil {
		return "", err
	}
	args := map[string]any{"session": "check-snapshot", "epoch": 2, "state": before}
	if err := c.must(ctx, talk, "restore", args); err != nil {
		return "", err
	}
	after, err := c.snapshot(ctx, talk, 2)
	if err == nil && !sameJSON(before, after) {
		err = fmt.Errorf("the restored session's snapshot differs: %s before, %s after", clip(before), clip(after))
	}
	return fmt.Sprintf("%d bytes of state", len(before)), err
}

func (c *checker) snapshot(ctx context.Context, talk *conversation, epoch int) (json.RawMessage, error) {
	args := map[string]any{"session": "check-snapshot", "epoch": epoch}
	reply, err := talk.ask(ctx, "snapshot", args, c.opts.Patience)
	if err != nil {
		return nil, err
	}
	if reply.Err != nil {
		return nil, fmt.Errorf("snapshot was answered with an error: %w", reply.Err)
	}
	var said map[string]json.RawMessage
	if err := json.Unmarshal(reply.Result, &said); err != nil || said["state"] == nil {
		return nil, fmt.Errorf("snapshot's result has no \"state\": %s", clip(reply.Result))
	}
	return said["state"], nil
}
