package bench

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
	"github.com/troupe-run/troupe/test/servers"
)

// BenchmarkFullToldGrowth repeats rows of BenchmarkFullGrowth with the default notices.
func BenchmarkFullToldGrowth(b *testing.B) {
	f := startFull(b)
	f.countStatements(b)
	for name, change := range map[string]func(*node.Config){"Told": tellingDefaults, "Quiet": nil} {
		b.Run("Pools1"+name, func(b *testing.B) { growth(b, f, ground{pools: 1, workers: 200, change: change}) })
		b.Run("Pools100"+name, func(b *testing.B) { growth(b, f, ground{pools: 100, workers: 2, change: change}) })
		b.Run("Finished1M"+name, func(b *testing.B) {
			growth(b, f, ground{pools: 1, workers: 200, stored: (*grown).finish, change: change})
		})
	}
}

// BenchmarkFullToldSpread repeats BenchmarkFullSpread with the default notices.
func BenchmarkFullToldSpread(b *testing.B) { spreadAll(b, "true") }

// told returns a function that waits until the outbox of the newest database is empty. Without servers there are no notices.
func (f *full) told(b *testing.B) func() {
	if f == nil {
		return func() {}
	}
	look := f.look(b)
	return func() { await(b, "told", func() bool { return outbox(b, look).Count == 0 }) }
}

// rateOf is how many executions ended a second, from the first look to the last.
func rateOf(looks []sustainedLook) float64 {
	first, last := looks[0], looks[len(looks)-1]
	return float64(last.ended-first.ended) / (last.at - first.at).Seconds()
}

// look opens the newest database, as another program does.
func (f *full) look(b *testing.B) *postgres.Store {
	s, err := postgres.Open(context.Background(), postgres.Config{URL: f.newest(), Conns: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// outbox is the number and the age of the notices that are not sent yet.
func outbox(b *testing.B, s *postgres.Store) store.NoticesPending {
	p, err := s.PendingNotices(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// BenchmarkFullSustained submits to a node with the default settings as fast as the node accepts, for TROUPE_SUSTAINED (15 s; ten
// minutes for the figures in docs). It reports the age of the oldest notice that was not sent, the rate at the beginning and at
// the end, and the size of the outbox's tables, for each half of the time.
func BenchmarkFullSustained(b *testing.B) {
	took := 15 * time.Second
	if text := os.Getenv("TROUPE_SUSTAINED"); text != "" {
		var err error
		if took, err = time.ParseDuration(text); err != nil {
			b.Fatal(err)
		}
	}
	f := startFull(b)
	for range b.N {
		url := f.fresh(b)
		n := start(b, f.at(url, tellingDefaults))
		s := &sustained{b: b, node: n, db: looksAt(b, url), store: f.look(b)}
		before := f.usage()
		s.run(took)
		f.report(b, before, f.usage(), s.submitted)
		s.report()
	}
}

// sustained is a load of constant size.
type sustained struct {
	b         *testing.B
	node      *node.Node
	db        *servers.Looks
	store     *postgres.Store
	submitted int
	looks     []sustainedLook
}

// sustainedLook is one sample, taken every second.
type sustainedLook struct {
	at         time.Duration
	ended      int
	age        time.Duration
	size, dead int // the outbox's bytes with its indexes, and its rows that vacuum has not removed
}

// backlogMax is how many executions may wait. It is so large that no worker is ever idle.
const backlogMax = 4000

// lookAtBacklog is how often the load looks whether it may submit. The backlog lasts several times as long, and a look at it costs the server
// something.
const lookAtBacklog = 50 * time.Millisecond

func (s *sustained) run(took time.Duration) {
	began, looks := time.Now(), time.NewTicker(lookAtBacklog)
	defer looks.Stop()
	for next := time.Second; time.Since(began) < took; <-looks.C {
		waiting := s.count("SELECT count(*) FROM execution WHERE rank IS NOT NULL")
		if waiting < backlogMax {
			if _, err := s.node.Backend().Submit(context.Background(), requests("core.noop", backlogMax, "")); err != nil {
				s.b.Fatal(err)
			}
			s.submitted += backlogMax
		}
		if since := time.Since(began); since > next {
			next += time.Second
			s.look(since, s.submitted-waiting)
		}
	}
	await(s.b, "idle", idle(s.node))
	await(s.b, "told", func() bool { return outbox(s.b, s.store).Count == 0 })
}

func (s *sustained) look(at time.Duration, ended int) {
	s.looks = append(s.looks, sustainedLook{at, ended, outbox(s.b, s.store).Age, s.count("SELECT pg_total_relation_size('outbox') + pg_total_relation_size('outbox_teller')"),
		s.count("SELECT sum(n_dead_tup)::bigint FROM pg_stat_user_tables WHERE relname IN ('outbox', 'outbox_teller')")})
}

func (s *sustained) count(query string) int {
	n, err := s.db.Number(query)
	if err != nil {
		s.b.Fatal(err)
	}
	return n
}

// looksAt is a connection that stays for the benchmark.
func looksAt(b *testing.B, url string) *servers.Looks {
	db, err := servers.OpenLooks(url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	return db
}

// report reports the worst sample of each half, and how much of the rate in the first fifth the last fifth has.
func (s *sustained) report() {
	half, fifth := len(s.looks)/2, len(s.looks)/5
	s.b.ReportMetric(100*rateOf(s.looks[len(s.looks)-fifth:])/rateOf(s.looks[:fifth]), "kept-%")
	for name, looks := range map[string][]sustainedLook{"1st-half": s.looks[:half], "2nd-half": s.looks[half:]} {
		worst := sustainedLook{}
		for _, l := range looks {
			worst.age, worst.size, worst.dead = max(worst.age, l.age), max(worst.size, l.size), max(worst.dead, l.dead)
		}
		s.b.ReportMetric(rateOf(looks), name+"/s")
		s.b.ReportMetric(float64(worst.age.Milliseconds()), name+"-age-ms")
		s.b.ReportMetric(float64(worst.size)/(1<<20), name+"-MiB")
		s.b.ReportMetric(float64(worst.dead), name+"-dead")
	}
}
