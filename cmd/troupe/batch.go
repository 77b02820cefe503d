package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
)

// batchChunk is how many executions of a batch go in one call.
const batchChunk = 1000

// submitBatch submits one execution for each line of the file, in calls of batchChunk.
func (s *submission) submitBatch(ctx context.Context, c *client.Client, r submit.Request, pairs []string) error {
	if s.params != "" || len(pairs) > 0 || s.key != "" {
		return usagef("--batch goes with neither --params, key=value nor --key: every line is one execution's parameters")
	}
	data, err := s.readInput(s.batch)
	if err != nil {
		return err
	}
	requests, err := batchRequests(s.batch, data, r)
	if err != nil {
		return err
	}
	p := &progress{app: s.app}
	defer p.done()
	var ids []messages.ExecutionID
	for len(requests) > 0 {
		n := min(batchChunk, len(requests))
		v, err := c.SubmitBatch(ctx, requests[:n])
		if err != nil {
			return fmt.Errorf("after %d submitted: %w", len(ids), err)
		}
		for _, item := range v.Executions {
			ids = append(ids, item.ID)
		}
		requests = requests[n:]
		p.say("submitted %d, %d to go", len(ids), len(requests))
	}
	p.done()
	if s.wait {
		return s.waitAll(ctx, c, ids)
	}
	if s.output == "json" {
		return s.printJSON(ids)
	}
	for _, id := range ids {
		fmt.Fprintln(s.out, id)
	}
	return nil
}

// batchRequests reads one object of parameters a line; empty lines are skipped.
func batchRequests(name string, data []byte, r submit.Request) ([]submit.Request, error) {
	var requests []submit.Request
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 2*messages.ParametersMax)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if err := objectOnly(fmt.Sprintf("%s:%d", name, n), line); err != nil {
			return nil, err
		}
		r.Parameters = bytes.Clone(line)
		requests = append(requests, r)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(requests) == 0 {
		return nil, usagef("%s holds no line", name)
	}
	return requests, nil
}

// batchEnd is how one execution of a batch ended. Where it was retried, the end is that of the last of its chain.
type batchEnd struct {
	ID     messages.ExecutionID `json:"id"`
	As     messages.ExecutionID `json:"ended_as,omitzero"` // its last retry
	Status messages.Status      `json:"status"`
	Result json.RawMessage      `json:"result,omitempty"`
	Error  *messages.Error      `json:"error,omitempty"`
}

// waitAll waits for every execution. It counts how they ended, or, for programs, writes the end of each in the batch's order, as
// soon as it is there: a batch's results may be more than fits in memory.
func (s *submission) waitAll(ctx context.Context, c *client.Client, ids []messages.ExecutionID) error {
	p := &progress{app: s.app}
	defer p.done()
	counts := map[string]int{}
	list := jsonList{app: s.app}
	for i, id := range ids {
		p.say("%d of %d ended", i, len(ids))
		v, err := c.Wait(ctx, id.String())
		for err == nil && v.Status != messages.Completed && !v.RetriedAs.IsZero() {
			v, err = c.Wait(ctx, v.RetriedAs.String())
		}
		if err != nil {
			return errors.Join(err, list.end())
		}
		counts[v.Status.String()]++
		if v.Status != messages.Completed && counts[v.Status.String()] <= 10 {
			p.done()
			if err := list.next(); err != nil {
				return err
			}
			fmt.Fprintf(s.err, "execution %s %s\n", v.ID, failure(v))
		}
		if err := list.add(endOf(id, v)); err != nil {
			return err
		}
	}
	p.done()
	if err := list.end(); err != nil {
		return err
	}
	if err := s.printCounts(counts); err != nil {
		return err
	}
	if counts[messages.Completed.String()] != len(ids) {
		return errSilent
	}
	return nil
}

// endOf is the end of the execution id, v being the last of its chain.
func endOf(id messages.ExecutionID, v form.ExecutionView) batchEnd {
	e := batchEnd{ID: id, Status: v.Status, Result: v.Result, Error: v.Error}
	if v.ID != id {
		e.As = v.ID
	}
	return e
}

// jsonList writes a JSON array piece by piece, where JSON is asked for.
type jsonList struct {
	app   *app
	begun bool
	wants bool // the line of what came before is ended, and an entry has to follow
}

// next ends the line of what was written before, so that something else may be said before the entry that follows.
func (l *jsonList) next() error {
	if l.app.output != "json" || l.wants {
		return nil
	}
	text := "[\n"
	if l.begun {
		text = ",\n"
	}
	l.begun, l.wants = true, true
	_, err := io.WriteString(l.app.out, text)
	return err
}

func (l *jsonList) add(v any) error {
	if l.app.output != "json" {
		return nil
	}
	var b bytes.Buffer
	b.WriteString("  ")
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	if err := l.next(); err != nil {
		return err
	}
	l.wants = false
	_, err := l.app.out.Write(harmlessJSON(bytes.TrimRight(b.Bytes(), "\n")))
	return err
}

func (l *jsonList) end() error {
	if !l.begun {
		return nil
	}
	l.begun = false
	_, err := fmt.Fprintln(l.app.out, "\n]")
	return err
}

func (s *submission) printCounts(counts map[string]int) error {
	if s.output == "json" {
		return nil // each end has been written
	}
	var rows [][]string
	for _, s := range messages.Statuses() {
		if n := counts[s.String()]; n > 0 {
			rows = append(rows, []string{s.String(), fmt.Sprint(n)})
		}
	}
	return s.printTable([]string{"STATUS", "COUNT"}, rows)
}
