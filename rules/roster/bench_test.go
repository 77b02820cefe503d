package roster

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
)

// BenchmarkStep runs a steady flow over 1,000 workers and 100,000 bound sessions: each execution is five events
// (Loaded amortized, Placed, Published, Claimed, Ended). The time is that of one event.
func BenchmarkStep(b *testing.B) {
	for _, share := range []int{0, 50, 100} {
		b.Run(fmt.Sprintf("sessions=%d%%", share), func(b *testing.B) { benchmarkFlow(b, share) })
	}
}

type flow struct {
	r       *Roster
	now     time.Time
	share   int
	next    int64
	queue   []Event
	running []Event
	events  int
}

func benchmarkFlow(b *testing.B, share int) {
	f := &flow{r: New(Config{SessionTimeout: 24 * time.Hour}), now: epoch0, share: share}
	for i := range 1000 {
		f.step(WorkerSeen{Worker: slotKey(i), ID: messages.WorkerID(fmt.Sprintf("n/p/%d", i)), Generation: 1,
			Accepts: true, Active: true, Grade: health.Healthy, BeatAt: epoch0.Add(time.Hour)})
	}
	for i := range 100_000 {
		f.step(SessionMoved{Session: sessionName(i), Worker: slotKey(i % 1000), Epoch: 1, FinishedEpoch: 1, TouchedAt: epoch0})
	}
	f.run(20_000)
	b.ReportAllocs()
	b.ResetTimer()
	f.run(b.N)
	b.StopTimer()
	if f.r.Snapshot().Held > f.r.config.HeldMax {
		b.Fatal("held too much")
	}
}

func sessionName(i int) string { return fmt.Sprintf("session-%d", i) }

// run steps through n events; a run that is claimed ends after 100 others.
func (f *flow) run(n int) {
	for f.events = 0; f.events < n; {
		if len(f.queue) == 0 && len(f.running) > 0 {
			f.queue = append(f.queue, f.running[0])
			f.running = f.running[1:]
		}
		if len(f.queue) == 0 {
			f.step(Wake{})
			f.now = f.now.Add(time.Second)
			f.step(Tick{})
			continue
		}
		e := f.queue[0]
		f.queue = f.queue[1:]
		f.step(e)
	}
}

func (f *flow) step(e Event) {
	f.events++
	f.now = f.now.Add(10 * time.Microsecond)
	for _, effect := range f.r.Step(f.now, e) {
		switch effect := effect.(type) {
		case Load:
			f.queue = append(f.queue, f.page(effect.Limit))
		case Place:
			for _, a := range effect.Assignments {
				f.queue = append(f.queue, Placed{ID: a.ID, Attempt: a.Attempt + 1, OK: true, ClaimBy: f.now.Add(15 * time.Second)})
			}
		case Publish:
			f.queue = append(f.queue, Published{Placements: effect.Placements, OK: true})
			for _, p := range effect.Placements {
				f.queue = append(f.queue, Claimed{Placement: p, Worker: effect.Worker})
				f.running = append(f.running, Ended{Placement: p, Worker: effect.Worker, Took: 2 * time.Second, Finished: true})
			}
		}
	}
}

func (f *flow) page(n int) Loaded {
	page := Loaded{More: true}
	for range min(n, 128) {
		f.next++
		c := messages.Candidate{Seq: f.next, Priority: messages.PriorityNormal}
		binary.BigEndian.PutUint64(c.ID[:], uint64(f.next))
		if int(f.next%100) < f.share {
			c.Session = names[f.next%int64(len(names))]
			c.Affinity = messages.AffinityStrict
		}
		page.Candidates = append(page.Candidates, c)
	}
	return page
}

var names = func() (all []string) {
	for i := range 100_000 {
		all = append(all, sessionName(i*7919%100_000))
	}
	return all
}()
