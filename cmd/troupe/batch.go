package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"

	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/supervisor/api"
)

// batchChunk is how many executions of a batch go in one call.
const batchChunk = 1000

// submitBatch submits one execution for each line of the file, in calls of batchChunk.
func (a *app) submitBatch(ctx context.Context, c *client.Client, s *submission, r api.SubmitRequest, pairs []string) error {
	if s.params != "" || len(pairs) > 0 || s.key != "" {
		return usagef("--batch goes with neither --params, key=value nor --key: every line is one execution's parameters")
	}
	data, err := a.readInput(s.batch)
	if err != nil {
		return err
	}
	requests, err := batchRequests(s.batch, data, r)
	if err != nil {
		return err
	}
	p := &progress{app: a}
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
		return a.waitAll(ctx, c, ids)
	}
	if a.output == "json" {
		return a.printJSON(ids)
	}
	for _, id := range ids {
		fmt.Fprintln(a.out, id)
	}
	return nil
}

// batchRequests reads one object of parameters a line; empty lines are skipped.
func batchRequests(name string, data []byte, r api.SubmitRequest) ([]api.SubmitRequest, error) {
	var requests []api.SubmitRequest
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

// waitAll waits for every execution and counts how they ended.
func (a *app) waitAll(ctx context.Context, c *client.Client, ids []messages.ExecutionID) error {
	p := &progress{app: a}
	defer p.done()
	counts := map[string]int{}
	for i, id := range ids {
		p.say("%d of %d ended", i, len(ids))
		v, err := c.Wait(ctx, id.String())
		for err == nil && v.Status != messages.Completed && !v.RetriedAs.IsZero() {
			v, err = c.Wait(ctx, v.RetriedAs.String())
		}
		if err != nil {
			return err
		}
		counts[v.Status.String()]++
		if v.Status != messages.Completed && counts[v.Status.String()] <= 10 {
			p.done()
			fmt.Fprintf(a.err, "execution %s %s\n", v.ID, failure(v))
		}
	}
	p.done()
	if err := a.printCounts(counts); err != nil {
		return err
	}
	if counts[messages.Completed.String()] != len(ids) {
		return errSilent
	}
	return nil
}

func (a *app) printCounts(counts map[string]int) error {
	var rows [][]string
	for _, s := range messages.Statuses() {
		if n := counts[s.String()]; n > 0 {
			rows = append(rows, []string{s.String(), fmt.Sprint(n)})
		}
	}
	return a.show(counts, []string{"STATUS", "COUNT"}, rows)
}
