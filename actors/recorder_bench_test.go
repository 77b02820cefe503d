package actors

import (
	"context"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// ledger is a store that takes everything at once.
type ledger struct{ store.Executions }

func (ledger) Apply(_ context.Context, changes []store.Change) ([]store.Result, error) {
	results := make([]store.Result, len(changes))
	for i := range results {
		results[i] = store.Result{Verdict: store.Applied, Status: messages.Running}
	}
	return results, nil
}

// ear signals each Recorded that it gets.
type ear chan struct{}

func (c ear) Receive(ctx actor.Context) {
	if _, ok := ctx.Message().(*Recorded); ok {
		c <- struct{}{}
	}
}

// BenchmarkRecorder measures what the recorder adds to one change whose store costs nothing: alone, and among many.
func BenchmarkRecorder(b *testing.B) {
	for name, under := range map[string]int{"alone": 1, "among64": 64} {
		b.Run(name, func(b *testing.B) {
			s := NewSystem(hclog.NewNullLogger())
			recorder, err := s.Spawn(s, NewRecorder(RecorderConfig{System: s, Store: ledger{}, Outcomes: NewOutcomes(), Logger: hclog.NewNullLogger()}))
			if err != nil {
				b.Fatal(err)
			}
			heard := make(ear, under)
			worker, err := s.Spawn(s, Child{Name: "worker", Kind: "worker", New: func() actor.Actor { return heard }})
			if err != nil {
				b.Fatal(err)
			}
			record := func() {
				s.Send(recorder, &Record{Reply: worker, Items: []Item{{Change: &store.Claim{ID: messages.NewExecutionID(), Attempt: 1}}}})
			}
			b.ReportAllocs()
			for i := range b.N {
				record()
				if i >= under-1 {
					<-heard
				}
			}
			b.StopTimer()
			for range min(under-1, b.N) {
				<-heard
			}
			for _, pid := range []*actor.PID{recorder, worker} {
				if err := s.StopAndWait(b.Context(), pid); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
