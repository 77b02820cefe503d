package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
)

// batch is a batch in work: what the node has answered.
type batch struct {
	*submission
	p       *progress
	ids     []messages.ExecutionID
	lines   int // of the parts before
	refused int
}

// submitBatch submits one execution for each line of the file, as it is read. A line that the node refuses is named, and the others
// are submitted.
func (s *submission) submitBatch(ctx context.Context, c *client.Client, r submit.Request, pairs []string) error {
	if s.params != "" || len(pairs) > 0 || s.key != "" {
		return usagef("--batch goes with neither --params, key=value nor --key: every line is one execution's parameters")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	source, err := s.openBatch(ctx, r)
	if err != nil {
		return err
	}
	if _, err := source.more(ctx); err != nil {
		return err
	}
	b := &batch{submission: s, p: &progress{app: s.app}}
	defer b.p.done()
	streams, err := c.Streams(ctx)
	if err != nil {
		return err
	}
	for {
		more, err := source.more(ctx)
		switch {
		case err != nil:
		case !more:
			return b.done(ctx, c)
		case streams:
			err = b.stream(ctx, c, source)
		default:
			err = b.call(ctx, c, source)
		}
		if err != nil {
			b.p.done()
			return fmt.Errorf("after %d submitted: %w", len(b.ids), err)
		}
	}
}

// stream submits one part of the batch as a stream.
func (b *batch) stream(ctx context.Context, c *client.Client, source *batchSource) error {
	part := source.part()
	if err := c.SubmitStream(ctx, part, b.answered); err != nil {
		return err
	}
	<-part.closed // nobody reads it any more
	b.lines += part.lines
	return nil
}

// call submits one block of the batch in a call of its own: a node of an older release has no streams.
func (b *batch) call(ctx context.Context, c *client.Client, source *batchSource) error {
	k := source.next
	source.next = nil
	var requests []submit.Request
	for line := range bytes.Lines(k.data) {
		var r submit.Request
		if len(line) <= 1 {
			continue
		}
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		requests = append(requests, r)
	}
	if len(requests) == 0 {
		return nil
	}
	v, err := c.SubmitBatch(ctx, requests)
	for _, item := range v.Executions {
		b.stored(item.ID)
	}
	return err
}

// answered takes the answer to one line.
func (b *batch) answered(a *form.StreamAnswer) error {
	if a.Error == nil {
		b.stored(a.ID)
		return nil
	}
	if a.Error.Code == string(messages.CodeActionNotFound) { // so it is for every line
		return &client.Error{Status: http.StatusNotFound, Code: a.Error.Code, Message: a.Error.Message}
	}
	b.refused++
	b.p.done()
	name := b.batch
	if name == "-" {
		name = "standard input"
	}
	fmt.Fprintf(b.err, "%s:%d: %s (%s)\n", name, b.lines+a.Line, a.Error.Message, a.Error.Code)
	return nil
}

func (b *batch) stored(id messages.ExecutionID) {
	b.ids = append(b.ids, id)
	switch {
	case !b.wait && b.output != "json":
		fmt.Fprintln(b.out, id)
	case len(b.ids)%1000 == 0:
		b.p.say("submitted %d", len(b.ids))
	}
}

// done ends the batch once all lines are answered.
func (b *batch) done(ctx context.Context, c *client.Client) (err error) {
	b.p.done()
	switch {
	case b.wait:
		err = b.waitAll(ctx, c, b.ids)
	case b.output == "json":
		err = b.printJSON(b.ids)
	}
	if b.refused > 0 && (err == nil || errors.Is(err, errSilent)) {
		return fmt.Errorf("%d of %d lines were refused", b.refused, b.refused+len(b.ids))
	}
	return err
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
