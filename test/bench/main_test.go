// Package bench measures a whole node on this machine. Command test/record runs its benchmarks and writes docs/benchmarks.md. Benchmarks
// assert nothing; they report.
package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
)

func TestMain(m *testing.M) {
	process.RunHelper()
	syscall.Umask(0o022) // a node refuses a data folder that other users may write to
	node.Tune()          // as the program does
	os.Exit(m.Run())
}

// start starts a node with the embedded store, durable, without an HTTP listener.
func start(b *testing.B, change func(*node.Config)) *node.Node {
	b.Helper()
	cfg := node.Config{Data: b.TempDir(), Name: "bench", Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: os.Stderr})}
	if change != nil {
		change(&cfg)
	}
	n, err := node.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	if err := n.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := n.Stop(ctx); err != nil {
			b.Error(err)
		}
	})
	await(b, "ready", func() bool { return n.Backend().Ready(context.Background()).Ready })
	return n
}

// lookEvery is the pause between two checks whether all executions have ended. River's side of the comparison has the same.
const lookEvery = 20 * time.Millisecond

// await polls a condition for up to two minutes.
func await(b *testing.B, what string, done func() bool) {
	b.Helper()
	awaitBy(b, lookEvery, what, done)
}

// awaitBy is await with another pause, for a condition that costs the node something.
func awaitBy(b *testing.B, pause time.Duration, what string, done func() bool) {
	b.Helper()
	for limit := time.Now().Add(2 * time.Minute); !done(); time.Sleep(pause) {
		if time.Now().After(limit) {
			b.Fatalf("not %s within two minutes", what)
		}
	}
}

// requests are n submissions of one action.
func requests(action string, n int, parameters string) []submit.Request {
	list := make([]submit.Request, n)
	for i := range list {
		list[i] = submit.Request{ActionRef: action, Parameters: json.RawMessage(parameters)}
	}
	return list
}

// idle reports whether no execution waits or runs. It looks for one such execution, as River's side of the comparison does: to
// count all of them several times a second would be half of the store's work.
func idle(n *node.Node) func() bool {
	stages := [][]messages.Status{{messages.Requested}, {messages.Scheduled, messages.Running, messages.Cancelling}}
	return func() bool {
		for _, stage := range stages {
			page, err := n.Backend().List(context.Background(), store.Filter{Statuses: stage, Limit: 1})
			if err != nil || len(page.Executions) > 0 {
				return false
			}
		}
		return true
	}
}

// workedOff waits until the last of many executions has ended, and then until all have. They are worked off in their order, and to
// look at one execution costs the same however many have ended. To look for any that waits passes over the index entries of all that
// waited since the server's last vacuum.
func workedOff(b *testing.B, n *node.Node, last messages.ExecutionID) {
	b.Helper()
	await(b, "worked off to the last one", func() bool {
		e, err := n.Backend().Get(context.Background(), last)
		return err == nil && e.Status.Terminal()
	})
	await(b, "idle", idle(n))
}

// waiting counts the executions that have not ended.
func waiting(n *node.Node) int {
	pools, err := n.Backend().Pools(context.Background(), "")
	if err != nil {
		return 1
	}
	count := 0
	for _, pool := range pools.Pools {
		count += pool.Waiting + pool.Placed + pool.Running
	}
	return count
}

// cpu is the processor time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// percentiles reports the median, p99 and the maximum of the samples in the given unit.
func percentiles(b *testing.B, name string, samples []time.Duration, unit time.Duration, suffix string) {
	b.Helper()
	if len(samples) == 0 {
		b.Fatalf("no samples of %s", name)
	}
	slices.Sort(samples)
	at := func(q float64) float64 {
		return float64(samples[min(int(q*float64(len(samples))), len(samples)-1)]) / float64(unit)
	}
	b.ReportMetric(at(0.5), name+"-p50-"+suffix)
	b.ReportMetric(at(0.99), name+"-p99-"+suffix)
	b.ReportMetric(at(1), name+"-max-"+suffix)
}

func median(samples []time.Duration) time.Duration {
	slices.Sort(samples)
	return samples[len(samples)/2]
}

// resident is the resident size of a process in bytes.
func resident(b *testing.B, pid int) float64 {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var kb float64
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			if err := json.Unmarshal([]byte(strings.TrimSuffix(strings.TrimSpace(rest), " kB")), &kb); err != nil {
				b.Fatal(err)
			}
			return kb * 1024
		}
	}
	b.Fatal("no resident size")
	return 0
}
