package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// checker uses one running program for many rules. It starts another when a rule has ended the program.
type checker struct {
	launcher launcher
	argv     []string
	opts     Options

	talk     *conversation // nil: no program runs
	noHello  error         // why hello failed; once set, no rule but hello is tested
	declared map[string]bool
	totals   totals // sums of every conversation so far
}

// untested is the error of a rule that could not be tested.
type untested struct{ why string }

func (u untested) Error() string { return u.why }

// testRule tests one rule.
func (c *checker) testRule(ctx context.Context, r rule) Finding {
	f := Finding{Rule: r.name, Verdict: Passed}
	if r.totals {
		c.stop() // so that the totals are complete
	}
	if c.noHello != nil && !r.totals {
		return Finding{Rule: r.name, Verdict: NotTested, Detail: "hello was not answered"}
	}
	if r.needs != "" && !c.declared[r.needs] {
		return Finding{Rule: r.name, Verdict: NotDeclared, Detail: "capability " + r.needs}
	}
	detail, err := r.test(ctx, c)
	f.Detail = detail
	var u untested
	switch {
	case errors.As(err, &u):
		f.Verdict, f.Detail = NotTested, u.why
	case err != nil:
		f.Verdict, f.Detail, f.Advice = Failed, err.Error(), r.advice
		c.stop() // a program that has broken a rule may fail the next rule for the same reason
	}
	return f
}

// open returns a conversation in which hello is done. It starts a program where none runs.
func (c *checker) open(ctx context.Context) (*conversation, error) {
	if c.talk != nil && c.talk.alive() {
		return c.talk, nil
	}
	c.stop()
	talk, err := start(ctx, c.launcher, c.argv, c.opts)
	if err != nil {
		return nil, err
	}
	c.talk = talk
	_, err = c.hello(ctx, talk)
	return talk, err
}

// hello sends hello and keeps the capabilities that the program declares.
func (c *checker) hello(ctx context.Context, talk *conversation) (string, error) {
	args := map[string]any{"protocol": 1, "worker": "check/check/0", "generation": 1, "pool": "check", "actions": []any{}, "faults": true}
	if c.opts.Action != "" {
		args["actions"] = []any{map[string]any{"ref": c.opts.Action, "root": c.opts.Root, "entrypoint": c.opts.Entrypoint}}
	}
	reply, err := talk.ask(ctx, "hello", args, c.opts.InitTimeout)
	if err != nil {
		return "", err
	}
	if reply.Err != nil {
		return "", fmt.Errorf("hello was answered with an error: %w", reply.Err)
	}
	var said struct {
		Protocol     *int            `json:"protocol"`
		SDK          string          `json:"sdk"`
		Version      string          `json:"version"`
		Pid          int             `json:"pid"`
		Capabilities map[string]bool `json:"capabilities"`
	}
	if err := json.Unmarshal(reply.Result, &said); err != nil {
		return "", fmt.Errorf("hello's result is not as described: %w", err)
	}
	if said.Protocol == nil || *said.Protocol != 1 {
		return "", fmt.Errorf("hello's result has not \"protocol\": 1")
	}
	c.declared = said.Capabilities
	return strings.TrimSpace(said.SDK + " " + said.Version), nil
}

// stop ends the running program and adds its conversation to the totals.
func (c *checker) stop() {
	if c.talk == nil {
		return
	}
	c.talk.end()
	c.totals.add(c.talk)
	c.talk = nil
}

// totals sums up, over all conversations, what the rules about every answer need.
type totals struct {
	broken, stray, twice []string
	answered             int
	framesOnStdout       bool
}

func (l *totals) add(t *conversation) {
	if t.broken != "" {
		l.broken = append(l.broken, t.broken)
	}
	for id, count := range t.replies {
		switch {
		case t.sent[id] == "":
			l.stray = append(l.stray, fmt.Sprintf("an answer to id %d, which no request had", id))
		case count > 1:
			l.twice = append(l.twice, fmt.Sprintf("%d answers to %s (id %d)", count, t.sent[id], id))
		}
		l.answered += count
	}
	l.stray = append(l.stray, t.strays...)
	l.framesOnStdout = l.framesOnStdout || t.framesOnStdout()
}

// settle is how long the check waits, after the last expected answer, for anything that the program should not send.
const settle = 100 * time.Millisecond
