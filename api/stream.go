package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
)

// Bounds of a stream of submissions.
const (
	StreamMax  = 1_000_000        // lines
	StreamTime = 10 * time.Minute // of a whole stream
	LineTime   = bodyTime         // for a line to arrive, from the end of the one before
	chunkMax   = 1000             // lines that are stored in one transaction
)

// submitStream submits each line of the body, and answers each with a line. It reads what has arrived, stores that in one
// transaction, answers it, and only then reads on. So a caller that does not read its answers, or a store that is slow, stops it
// from sending. It holds one buffer, and the executions of what was in it.
func (s *server) submitStream(c *call) error {
	if err := mediaType(c.r, typeLines, false); err != nil {
		return err
	}
	if err := c.hold.add(lineBuffer); err != nil {
		return err
	}
	if err := c.enter(); err != nil {
		return err
	}
	st := newSubmitStream(s, c)
	defer st.close()
	err := st.run()
	if !st.begun {
		return err
	}
	if err != nil {
		_ = s.note(c.r, err)
	}
	if st.end(err) == nil {
		c.drain()
	}
	// The server closes a body after it has stopped watching the connection. Where it finds the end of the body then, it watches
	// again while it reads the next request, and panics (golang/go#68560). So the body is closed here.
	_ = st.out.control.SetReadDeadline(time.Now().Add(drainTime))
	_ = c.r.Body.Close()
	return nil
}

// submitStream is one stream of submissions in work.
type submitStream struct {
	s       *server
	c       *call
	lines   *lineReader
	out     stream
	trace   string          // of the lines that have none of their own
	ctx     context.Context // ends with the caller, the node or the stream's time
	close   func()
	begun   bool // the answer has begun
	line    int  // number of the line that was read last
	counts  form.StreamEnd
	answers []form.StreamAnswer // of the lines that were read and are not answered yet
	waiting []int               // indexes of those answers that are to be stored
	list    []submit.Request    // the same number of requests
	hold    holding             // of the list
}

func newSubmitStream(s *server, c *call) *submitStream {
	control := http.NewResponseController(c.w)
	// A writer without deadlines, as in a test, has no slow caller.
	_ = control.EnableFullDuplex()
	ctx, cancel := context.WithTimeout(c.r.Context(), StreamTime)
	c.begun = true
	st := &submitStream{s: s, c: c, trace: traceOf(c.r), lines: newLineReader(c.r.Body), out: stream{w: c.w, control: control}, ctx: ctx,
		hold: s.holding(true, ctx.Done())}
	st.hold.caller = c.hold.caller
	// The end of ctx ends a read that waits for the caller.
	stop := context.AfterFunc(ctx, func() { _ = control.SetReadDeadline(time.Unix(1, 0)) })
	st.close = func() {
		stop()
		cancel()
		st.hold.release()
	}
	return st
}

// run reads, stores and answers, until the body ends. The error is why it ended before.
func (st *submitStream) run() error {
	for {
		end := st.read()
		if !st.begun && end != nil && !errors.Is(end, io.EOF) {
			return end
		}
		if err := st.begin(); err != nil {
			return err
		}
		failed := st.store()
		if err := st.answer(); err != nil {
			return err
		}
		switch {
		case failed != nil:
			return failed
		case errors.Is(end, io.EOF):
			st.c.read = true
			return nil
		case end != nil:
			return end
		}
	}
}

// read reads the lines that have arrived. It waits for the first one only. The error is the end of the body, or why no more is read.
func (st *submitStream) read() error {
	_ = st.out.control.SetReadDeadline(time.Now().Add(LineTime))
	for first := true; first || len(st.answers) < chunkMax && st.lines.ready(); first = false {
		if st.ctx.Err() != nil { // it may have ended before the deadline was set
			return st.ended()
		}
		text, err := st.lines.next(&st.hold)
		var refused *messages.Problem
		switch {
		case errors.Is(err, io.EOF):
			return err
		case errors.Is(err, errLong):
			refused = toProblem(largeSubmit(tooLarge(BodyMax)))
		case err != nil && !errors.As(err, &refused):
			return st.broken()
		}
		if st.line++; st.line > StreamMax {
			return invalid("a stream has up to %d lines; send the others in another stream", StreamMax)
		}
		if refused == nil {
			refused = st.take(text)
		}
		if refused != nil {
			st.answers = append(st.answers, form.StreamAnswer{Line: st.line, Error: viewError(refused)})
		}
	}
	return nil
}

// take reads one line. An empty one says nothing.
func (st *submitStream) take(text []byte) *messages.Problem {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	var r submit.Request
	if err := decodeStrict("the line", text, &r); err != nil {
		return toProblem(err)
	}
	if p := r.Check(); p != nil {
		return p
	}
	if err := st.hold.add(int64(len(text)) + entryCost + labelCost*int64(len(r.Labels))); err != nil {
		return toProblem(err)
	}
	r.CreatedBy, r.Trace = st.c.caller, cmp.Or(r.Trace, st.trace)
	st.list = append(st.list, r)
	st.waiting = append(st.waiting, len(st.answers))
	st.answers = append(st.answers, form.StreamAnswer{Line: st.line})
	return nil
}

// broken is why the body could not be read any further.
func (st *submitStream) broken() error {
	if st.ctx.Err() != nil {
		return st.ended()
	}
	return messages.Problemf(messages.CodeInvalidRequest,
		"the stream ended before its time: send each line within %v of the one before, and the whole stream", LineTime)
}

// ended is why the stream's context has ended.
func (st *submitStream) ended() error {
	if st.c.r.Context().Err() != nil {
		return stops()
	}
	return invalid("a stream may take up to %v; send the other lines in another stream", StreamTime)
}

// begin begins the answer. It waits for the first line, because a caller that expects 100 Continue sends none before the body is
// read.
func (st *submitStream) begin() error {
	if st.begun {
		return nil
	}
	st.begun = true
	return st.out.open()
}

// store stores the list. An error that is not about one line ends the stream.
func (st *submitStream) store() (failed error) {
	if len(st.list) == 0 {
		return nil
	}
	stored := st.submit()
	for i, at := range st.waiting {
		a, made := &st.answers[at], &stored[i]
		if made.Err == nil {
			made.Err = st.c.foreignKey(&made.Stored, st.list[i].IdempotencyKey)
		}
		if made.Err == nil {
			a.ID, a.Status, a.Existing = made.Stored.Execution.ID, made.Stored.Execution.Status, made.Stored.Existing
			continue
		}
		if st.ctx.Err() != nil && errors.Is(made.Err, st.ctx.Err()) {
			made.Err = st.ended()
		}
		p := toProblem(made.Err)
		if a.Error = viewError(p); ofAll(p) {
			failed = made.Err
		}
	}
	clear(st.list)
	st.list, st.waiting = st.list[:0], st.waiting[:0]
	st.lines.shrink()
	st.hold.release()
	return failed
}

// ofAll reports whether a problem is not about the line that it refuses, so that the next lines would be refused too.
func ofAll(p *messages.Problem) bool {
	status := StatusOf(p)
	return status >= http.StatusInternalServerError || status == http.StatusTooManyRequests
}

// submit hands the list to the backend, when one of the few places for that is free.
func (st *submitStream) submit() []Submission {
	ctx, cancel := context.WithTimeout(st.ctx, longTime)
	defer cancel()
	err := errors.New("the backend answered a number of submissions with another number")
	select {
	case st.s.chunks <- struct{}{}:
		stored := st.s.Backend.SubmitEach(ctx, st.list)
		<-st.s.chunks
		if len(stored) == len(st.list) {
			return stored
		}
	case <-ctx.Done():
		if err = st.s.batches.full(); st.ctx.Err() != nil {
			err = st.ended()
		}
	}
	return slices.Repeat([]Submission{{Err: err}}, len(st.list))
}

// answer sends the answers.
func (st *submitStream) answer() error {
	if len(st.answers) == 0 {
		return nil
	}
	buf := buffers.Get().(*bytes.Buffer)
	buf.Reset()
	defer putBuffer(buf)
	enc := json.NewEncoder(buf)
	for i := range st.answers {
		a := &st.answers[i]
		if a.Error != nil {
			st.counts.Refused++
		} else {
			st.counts.Stored++
		}
		if err := enc.Encode(a); err != nil {
			return err
		}
	}
	clear(st.answers)
	st.answers = st.answers[:0]
	return st.out.write(buf.Bytes())
}

// end sends the last line.
func (st *submitStream) end(err error) error {
	last := form.StreamAnswer{End: &st.counts}
	if err != nil {
		last.Error = viewError(toProblem(err))
	}
	return st.out.send("end", last)
}

// foreignKey refuses an execution that was stored before by another caller, unless the caller may read it. The caller's own key may
// belong to a retry of another caller's execution, which it made when it had more scopes.
func (c *call) foreignKey(stored *store.Submitted, key string) error {
	if c.blind && stored.Existing && stored.Execution.CreatedBy != c.caller {
		return messages.Problemf(messages.CodeKeyConflict, "idempotency key %s is another caller's; send the request with one of your own", clip(key))
	}
	return nil
}
