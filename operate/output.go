package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/store"
)

// askOutput asks the node that an execution stands on what was seen of it.
func (q *executions) askOutput(ctx context.Context, e *messages.Execution, at actors.Poll) (part wire.OutputResult, err error) {
	to := q.nodes.row(e.Worker.Incarnation, nodeOf(e))
	reply, err := q.calls.ask(ctx, &to, steerTime, e.Placement(), wire.Output{Feed: at.Feed, From: at.From})
	if err != nil {
		return part, err
	}
	part, _ = reply.(wire.OutputResult)
	return part, nil
}

// Output returns what the execution's process wrote: what is stored, or, while it runs, what was seen so far.
func (q *executions) Output(ctx context.Context, id messages.ExecutionID) (messages.Output, error) {
	e, err := q.Get(store.Bare(ctx), id)
	switch {
	case err != nil:
		return messages.Output{}, err
	case e.Status.Terminal():
		out, err := q.cfg.Store.Output(ctx, id)
		out.Notice = lostOutput(&e)
		return out, err
	case !q.remoteRun(&e):
		return q.cfg.Feeds.Output(id), nil
	}
	return q.remoteOutput(ctx, &e)
}

// lostOutput says that what the last run of an ended execution wrote is lost, and why; empty: it is not, or none has begun.
func lostOutput(e *messages.Execution) string {
	givenBack := e.Generation == 0 // and not claimed since
	switch {
	case !e.Status.Terminal() || e.StartedAt.IsZero():
		return ""
	case e.Error != nil && e.Error.FailedBy == messages.FailedByRecorder:
		return "what it wrote is not stored: its end could not be stored as it was"
	case !givenBack && e.Error.ByWorker():
		return ""
	}
	text := "what it wrote is lost: a worker stores that with the end of its run, and the end of this one was not written by its worker"
	if e.Error != nil && e.Error.FailedBy != "" {
		text += " (failed_by: " + e.Error.FailedBy + ")"
	}
	return text
}

// outputAsks bounds the questions for what was seen of a run: a feed that is kept whole takes some dozens.
const outputAsks = 256

// remoteOutput is what was seen so far of a run on another node.
func (q *executions) remoteOutput(ctx context.Context, e *messages.Execution) (out messages.Output, err error) {
	at := actors.Poll{}
	for range outputAsks {
		part, err := q.askOutput(ctx, e, at)
		if err != nil {
			return out, err
		}
		out.StdoutCut, out.ErrCut = out.StdoutCut || part.StdoutCut, out.ErrCut || part.StderrCut
		for i := range part.Entries {
			switch h := &part.Entries[i]; h.Kind {
			case "stdout":
				out.Stdout = append(out.Stdout, h.Data...)
			case "stderr":
				out.Stderr = append(out.Stderr, h.Data...)
			}
		}
		if at = (actors.Poll{Feed: part.Feed, From: part.Next}); !part.More {
			break
		}
	}
	return out, nil
}

// output answers what was seen of a run of this node.
func (s steered) output(_ context.Context, r peers.Request, m wire.Output) (wire.Body, error) {
	if err := s.shut(); err != nil {
		return done(err)
	}
	room, first := wire.OutputMax, true
	seen := s.cfg.Feeds.Poll(r.About.Execution, actors.Poll{Feed: m.Feed, From: m.From}, func(h *messages.RunEvent) bool {
		size := wireOf(h).Size()
		fits := size <= room || first
		room, first = room-size, false
		return fits
	})
	part := wire.OutputResult{
		Feed: seen.Next.Feed, Next: seen.Next.From, More: seen.More, Ended: seen.Ended,
		Lost: seen.Lost, StdoutCut: seen.StdoutCut, StderrCut: seen.StderrCut,
	}
	for i := range seen.Events {
		part.Entries = append(part.Entries, wireOf(&seen.Events[i]))
	}
	return part, nil
}

// wireOf is an event as it travels. What is too large for that is named instead.
func wireOf(h *messages.RunEvent) wire.RunEvent {
	w := wire.RunEvent{Kind: h.Kind, At: h.At, Data: h.Data, Chunk: h.Chunk, Fraction: h.Fraction, Level: h.Level, Message: h.Message}
	if math.IsNaN(w.Fraction) || math.IsInf(w.Fraction, 0) {
		w.Fraction = -1
	}
	if size := w.Size(); size > wire.RunEventMax {
		return wire.RunEvent{Kind: "notice", At: h.At, Fraction: -1,
			Message: fmt.Sprintf("a %s of %d bytes is too large to be passed on from its node", h.Kind, size)}
	}
	return w
}

// liveOf is an event of another node's run.
func liveOf(w *wire.RunEvent) view.Live {
	h := messages.RunEvent{Kind: w.Kind, At: w.At, Data: w.Data, Fraction: w.Fraction, Level: w.Level, Message: w.Message}
	if len(w.Chunk) > 0 {
		if h.Chunk = w.Chunk; !json.Valid(w.Chunk) {
			return view.Live{Kind: "notice", At: w.At, Message: "a chunk came from its node that is no JSON"}
		}
	}
	return live(h)
}

// replay gives what was stored of what the run of an ended execution said.
func (q *executions) replay(ctx context.Context, id messages.ExecutionID, each func(view.Live) error) error {
	out, err := q.cfg.Store.Output(ctx, id)
	if err != nil {
		return err
	}
	return out.Replay(func(h messages.RunEvent) error { return each(live(h)) })
}

func live(h messages.RunEvent) view.Live {
	l := view.Live{Kind: h.Kind, At: h.At, Data: h.Data, Chunk: h.Chunk, Level: h.Level, Message: h.Message}
	if h.Kind == "progress" && h.Fraction >= 0 {
		fraction := h.Fraction
		l.Fraction = &fraction
	}
	return l
}
