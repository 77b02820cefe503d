package check

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// rule is one rule of docs/protocol.md.
type rule struct {
	name   string
	needs  string // the capability that a node requires before it sends the request
	totals bool   // tested on the totals, after all other rules
	advice string // how to fix a failure
	test   func(ctx context.Context, c *checker) (detail string, err error)
}

// rules lists every rule in the order of testing: hello first, then the others, then those that end the program, and
// the rules about the totals last.
func rules() []rule {
	return []rule{
		{name: "hello", advice: "read frames from descriptor 3 and answer hello on descriptor 4 with protocol, sdk, version, pid and capabilities (booleans)", test: testHello},
		{name: "ping", advice: `answer ping with {"event":"result","id":ID,"data":{}}`, test: simple("ping", map[string]any{})},
		{name: "unknown_command", advice: "answer a command that you do not know with an error of code unknown_command", test: testUnknown},
		{name: "execute", advice: "answer every execute with one result or one error, whatever the action does", test: testExecute},
		{name: "execute_again", advice: "go back to reading requests after a run", test: testExecute},
		{name: "health_check", advice: "answer health_check with a result, or with an error when unhealthy", test: simple("health_check", map[string]any{})},
		{name: "ping_while_busy", needs: "ping_while_busy", advice: "read requests in a second thread, or leave ping_while_busy out of the capabilities", test: testBusyPing},
		{name: "cancel", needs: "cancel", advice: "answer cancel at once, then end the run with an error of code cancelled, or leave cancel out of the capabilities", test: testCancel},
		{name: "cancel_unknown", needs: "cancel", advice: "answer a cancel of a run that has ended with {} too: it crosses the result on its way", test: simple("cancel", map[string]any{"request": 0})},
		{name: "sessions", needs: "sessions", advice: "keep a session's state by (id, epoch), and run on", test: testSessions},
		{name: "end_session", needs: "sessions", advice: "answer end_session with {}, for a session that you do not know too", test: simple("end_session", map[string]any{"session": "nobody", "epoch": 1})},
		{name: "snapshot", needs: "snapshot", advice: `answer snapshot with {"state": …} and let a restore of that state give the same snapshot again`, test: testSnapshot},
		{name: "large_frame", advice: "take frames of up to 16 MiB: read until the whole length has come", test: testLarge},
		{name: "burst", advice: "requests may come in one read: keep what follows a frame for the next", test: testBurst},
		{name: "undecodable", advice: "answer a frame that you cannot decode with an error of its request, whose id comes first, and run on", test: testUndecodable},
		{name: "shutdown", advice: "answer shutdown with {} and exit with status 0 within a second", test: testShutdown},
		{name: "end_of_input", advice: "exit when descriptor 3 ends: the node is gone", test: testEOF},
		{name: "frames", totals: true, advice: "write 4 bytes of length, big-endian, then one JSON object in UTF-8 of at most 16 MiB; nothing else goes to descriptor 4", test: testFrames},
		{name: "ids", totals: true, advice: "repeat the request's id in its answer, and the execute's id in progress, chunk and log; a fault has the id 0", test: testIDs},
		{name: "one_answer", totals: true, advice: "answer every request exactly once", test: testOnce},
		{name: "stdout", totals: true, advice: "standard output is the program's own and captured; write frames to descriptor 4", test: testStdout},
	}
}

// testLarge sends a ping of the largest size that a request can have, with an argument that the program ignores.
func testLarge(ctx context.Context, c *checker) (string, error) {
	talk, err := c.open(ctx)
	if err != nil {
		return "", err
	}
	padding := strings.Repeat("x", messages.FrameMax-1024)
	id, err := talk.send("ping", map[string]any{"padding": padding})
	if err != nil {
		return "", err
	}
	reply, err := talk.answer(ctx, id, c.opts.InitTimeout)
	if err == nil && reply.Err != nil {
		err = fmt.Errorf("a ping of almost 16 MiB was answered with an error: %w", reply.Err)
	}
	return "", err
}

// testBurst sends several requests without waiting, so that one read may return several of them.
func testBurst(ctx context.Context, c *checker) (string, error) {
	talk, err := c.open(ctx)
	if err != nil {
		return "", err
	}
	const count = 20
	ids := make([]uint64, 0, count)
	for range count {
		id, err := talk.send("ping", map[string]any{})
		if err != nil {
			return "", err
		}
		ids = append(ids, id)
	}
	for _, id := range ids {
		if _, err := talk.answer(ctx, id, c.opts.Patience); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d pings at once", count), nil
}

// testUndecodable sends an execute whose args are not as described. Only that request may suffer.
func testUndecodable(ctx context.Context, c *checker) (string, error) {
	talk, err := c.open(ctx)
	if err != nil {
		return "", err
	}
	reply, err := talk.ask(ctx, "execute", []any{"no arguments"}, c.opts.Patience)
	if err == nil && reply.Err == nil {
		err = fmt.Errorf("an execute without arguments got a result")
	}
	if err != nil {
		return "", err
	}
	return string(reply.Err.Code), c.must(ctx, talk, "ping", map[string]any{})
}

// exitTime is how long a program may take to exit: the node's grace after the first step of the stop ladder.
const exitTime = time.Second

func testShutdown(ctx context.Context, c *checker) (string, error) {
	talk, err := c.open(ctx)
	if err != nil {
		return "", err
	}
	if err := c.must(ctx, talk, "shutdown", map[string]any{}); err != nil {
		return "", err
	}
	if err := talk.wait(ctx, exitTime, func() bool { return talk.exited != nil }); err != nil {
		return "", fmt.Errorf("it did not exit after shutdown: %w", err)
	}
	if talk.exited.Code != 0 {
		return "", fmt.Errorf("it ended after shutdown, but not with status 0: %w", talk.why())
	}
	return "", nil
}

func testEOF(ctx context.Context, c *checker) (string, error) {
	talk, err := c.open(ctx)
	if err != nil {
		return "", err
	}
	talk.process.CloseInput()
	if err := talk.wait(ctx, exitTime, func() bool { return talk.exited != nil }); err != nil {
		return "", fmt.Errorf("it did not exit when its input ended: %w", err)
	}
	return "", nil
}

func testFrames(_ context.Context, c *checker) (string, error) { return first(c.totals.broken) }

func testIDs(_ context.Context, c *checker) (string, error) { return first(c.totals.stray) }

func testOnce(_ context.Context, c *checker) (string, error) {
	if _, err := first(c.totals.twice); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d answers", c.totals.answered), nil
}

func testStdout(_ context.Context, c *checker) (string, error) {
	if c.totals.framesOnStdout {
		return "", fmt.Errorf("frames came on standard output")
	}
	return "", nil
}

// first returns the first complaint of a list as an error.
func first(complaints []string) (string, error) {
	if len(complaints) == 0 {
		return "", nil
	}
	return "", fmt.Errorf("%s (%d in all)", complaints[0], len(complaints))
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	left, _ := json.Marshal(x) // a value that came from JSON can be encoded; the keys are sorted
	right, _ := json.Marshal(y)
	return bytes.Equal(left, right)
}

func clip(b []byte) string {
	if len(b) > 80 {
		return string(b[:80]) + "…"
	}
	return string(b)
}
