package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/troupe-run/troupe/rules/submit"
)

// BenchmarkFullSpread measures the cost of several nodes on one machine. It runs no-op executions on a cluster of one and of
// three real nodes with the same number of workers in total. They are submitted to all nodes in turn over HTTP, in bulk and by 16
// callers one by one.
func BenchmarkFullSpread(b *testing.B) { spreadAll(b, "false") }

func spreadAll(b *testing.B, notices string) {
	f, program := startFull(b), binary(b)
	for _, size := range []int{1, 3} {
		b.Run(fmt.Sprintf("Bulk%d", size), func(b *testing.B) { spread(b, f, program, notices, size, 2, 1000, scaled(20_000)) })
		b.Run(fmt.Sprintf("Callers%d", size), func(b *testing.B) { spread(b, f, program, notices, size, 16, 1, scaled(10_000)) })
	}
}

// spreadWorkers are the go workers of a cluster, divided among its nodes.
const spreadWorkers = 96

// spread makes callers submit count executions, in calls of batch each, to the nodes in turn. It reports the rate from the first
// submission to the last outcome, by the store's clock. notices is the nodes' setting.
func spread(b *testing.B, f *full, program, notices string, size, callers, batch, count int) {
	for range b.N {
		members := f.cluster(b, program, size, fmt.Sprintf("TROUPE_POOL_GO=%d", spreadWorkers/size), "TROUPE_MESSAGE_QUEUE_RABBITMQ_NOTICES="+notices)
		before := f.spent(members)
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				for k := range count / batch / callers {
					if err := submitTo(b.Context(), members[(i+k)%size], requests("core.noop", batch, "")); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		if b.Failed() {
			return
		}
		url := f.newest()
		wanted := count / batch / callers * batch * callers
		await(b, "idle", func() bool { return queryNumber(b, url, busySQL) == 0 })
		if done := queryNumber(b, url, fmt.Sprintf("SELECT count(*) FROM execution WHERE status = %d", completedStatus)); int(done) != wanted {
			b.Fatalf("%g executions completed, want %d", done, wanted)
		}
		took := queryNumber(b, url, "SELECT extract(epoch FROM max(e.finished_at) - min(r.requested_at)) FROM execution e JOIN request r USING (seq)")
		b.ReportMetric(float64(wanted)/took, "executions/s")
		b.ReportMetric(1000*queryNumber(b, url, `SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM e.started_at - r.requested_at))
 FROM execution e JOIN request r USING (seq)`), "start-p50-ms")
		b.ReportMetric(queryNumber(b, url, "SELECT count(*) FROM execution WHERE attempt > 1"), "placed-again")
		f.report(b, before, f.spent(members), wanted)
		for _, m := range members {
			m.end()
		}
	}
}

// submitTo submits one execution, or several in a call that the node counts as a batch.
func submitTo(ctx context.Context, m *member, r []submit.Request) (err error) {
	if len(r) == 1 {
		_, err = m.client.Submit(ctx, r[0], 0)
	} else {
		_, err = m.client.SubmitBatch(ctx, r)
	}
	return err
}

// busySQL is 1 while an execution waits for a worker or is on one.
const busySQL = `SELECT (EXISTS (SELECT FROM execution WHERE pool = 'go' AND rank IS NOT NULL)
 OR EXISTS (SELECT FROM execution WHERE pool = 'go' AND on_worker IS NOT NULL))::int`

// completedStatus is the number of completed in the store's table execution_status.
const completedStatus = 6

// spent is the CPU time of the nodes, and of the servers if there are any.
func (f *full) spent(members []*member) processors {
	var pids []int
	for _, m := range members {
		pids = append(pids, m.command.Process.Pid)
	}
	if f == nil {
		return processors{node: ticks(pids)}
	}
	return processors{ticks(pids), ticks(f.postgres.Pids()), ticks(f.rabbitmq.Pids())}
}
