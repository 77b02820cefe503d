package bench

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkFullIdle reports what each node without work costs a second: statements, transactions and messages, and the processor
// time of the node and the two servers in percent of a core. A node has the pools of the built-in pack, as `troupe node` starts
// it.
func BenchmarkFullIdle(b *testing.B) {
	f, program := startFull(b), binary(b)
	f.countStatements(b)
	b.Run("Servers", func(b *testing.B) { idleNodes(b, f, program, 0) })
	b.Run("Node", func(b *testing.B) { idleNodes(b, f, program, 1) })
	b.Run("Node3", func(b *testing.B) { idleNodes(b, f, program, 3) })
}

// idleNodes measures idle nodes for 30 s, the longest interval between two probes and two echoes. The figures are for each node.
// Without nodes they are what the servers use by themselves.
func idleNodes(b *testing.B, f *full, program string, size int) {
	for range b.N {
		members := f.cluster(b, program, size)
		settle(b, f, members)
		each := float64(max(size, 1))
		per := 1 / each
		f.forgetStatements(b)
		counters, transactions := f.messages(b), f.transactions(b)
		asked := time.Now()
		began, before := time.Now(), f.idleUsage(members)
		time.Sleep(time.Duration(scaled(30)) * time.Second) // the measurement itself
		used, took := f.idleUsage(members), time.Since(began).Seconds()
		if f.counted {
			b.ReportMetric(f.statements(b)*per/time.Since(asked).Seconds(), "statements/s")
		}
		b.ReportMetric((f.transactions(b)-transactions)*per/time.Since(asked).Seconds(), "transactions/s")
		for name, count := range f.messages(b) {
			b.ReportMetric((count-counters[name])*per/time.Since(asked).Seconds(), name+"/s")
		}
		percent := func(from, to time.Duration) float64 { return (to - from).Seconds() / took * 100 * per }
		b.ReportMetric(percent(before.node, used.node), "node-cpu-%")
		b.ReportMetric(percent(before.postgres, used.postgres), "postgres-cpu-%")
		b.ReportMetric(percent(before.rabbitmq, used.rabbitmq), "rabbitmq-cpu-%")
		f.logStatements(b)
	}
}

// settle waits until the work of the start is over: each node has written a heartbeat since it became ready.
func settle(b *testing.B, f *full, members []*member) {
	b.Helper()
	if len(members) == 0 {
		return
	}
	url := strings.Replace(f.postgres.URL, "/postgres?", "/bench_"+strconv.Itoa(f.database)+"?", 1)
	since := strconv.FormatInt(time.Now().Unix(), 10)
	await(b, "settled", func() bool {
		return queryNumber(b, url, "SELECT count(*) FROM worker WHERE active AND last_heartbeat < to_timestamp("+since+") + interval '1 s'") == 0
	})
}

// idleUsage is the CPU time of the nodes and the servers so far.
func (f *full) idleUsage(members []*member) processors {
	u := processors{postgres: ticks(f.postgres.Pids()), rabbitmq: ticks(f.rabbitmq.Pids())}
	for _, m := range members {
		u.node += ticks([]int{m.command.Process.Pid})
	}
	return u
}

// statements counts the statements on the newest database since the counters were reset.
func (f *full) statements(b *testing.B) float64 {
	b.Helper()
	return queryNumber(b, f.postgres.URL, `SELECT coalesce(sum(calls), 0) FROM pg_stat_statements
 WHERE dbid = (SELECT oid FROM pg_database WHERE datname = 'bench_`+strconv.Itoa(f.database)+"')")
}

// transactions counts the transactions on the newest database.
func (f *full) transactions(b *testing.B) float64 {
	b.Helper()
	return queryNumber(b, f.postgres.URL, fmt.Sprintf("SELECT coalesce(sum(xact_commit + xact_rollback), 0) FROM pg_stat_database WHERE datname = 'bench_%d'", f.database))
}

// counterPattern matches one of RabbitMQ's counters, as Erlang prints them.
var counterPattern = regexp.MustCompile(`(messages_received|messages_delivered)_total\s*=>\s*(\d+)`)

// messages counts the messages that the broker has received and delivered. Only a command can read these numbers. It runs outside
// of the time in which CPU time is measured.
func (f *full) messages(b *testing.B) map[string]float64 {
	b.Helper()
	out, err := f.rabbitmq.Ctl("eval", "rabbit_global_counters:overview().")
	if err != nil {
		b.Fatal(err)
	}
	counters := map[string]float64{"messages_received": 0, "messages_delivered": 0}
	for _, found := range counterPattern.FindAllStringSubmatch(out, -1) {
		n, err := strconv.ParseFloat(found[2], 64)
		if err != nil {
			b.Fatal(err)
		}
		counters[found[1]] += n
	}
	return counters
}
