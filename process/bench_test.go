package process

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// echoWorker is a worker in a few lines of Python; it answers every command with the args it got.
const echoWorker = `
import json, os
held = b""
while True:
    while len(held) < 4 or len(held) < 4 + int.from_bytes(held[:4], "big"):
        more = os.read(3, 1 << 20)
        if not more: os._exit(0)
        held += more
    end = 4 + int.from_bytes(held[:4], "big")
    request, held = json.loads(held[4:end]), held[end:]
    reply = json.dumps({"event": "result", "id": request["id"], "data": request["args"]}).encode()
    reply = len(reply).to_bytes(4, "big") + reply
    while reply:
        reply = reply[os.write(4, reply):]
`

func quantiles(b *testing.B, took []time.Duration, name string) {
	b.Helper()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), name+"-p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), name+"-p99-µs")
}

func BenchmarkEcho(b *testing.B) {
	g := newGuardian(b, Config{})
	replies := make(chan Reply, 1)
	p, err := g.Start(b.Context(), Spec{Argv: []string{"python3", "-c", echoWorker}, Env: environment(), Framed: true}, func(e Event) {
		if r, ok := e.(Reply); ok {
			replies <- r
		}
	})
	require.NoError(b, err)
	args := map[string]string{"text": strings.Repeat("x", 100)}
	echo := func() {
		_, err := p.Send("execute", args)
		require.NoError(b, err)
		<-replies
	}
	echo()
	took := make([]time.Duration, 0, b.N)
	for b.Loop() {
		began := time.Now()
		echo()
		took = append(took, time.Since(began))
	}
	quantiles(b, took, "trip")
}

func benchmarkStart(b *testing.B, cfg Config, limits messages.Limits) {
	g := newGuardian(b, cfg)
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		_, events := run(b, g, Spec{Argv: []string{"true"}, Limits: limits})
		exit, _ := events.exit(b)
		took = append(took, time.Since(began))
		require.Zero(b, exit.Code)
	}
	quantiles(b, took, "run")
}

func BenchmarkStart(b *testing.B) { benchmarkStart(b, Config{}, messages.Limits{}) }

func BenchmarkStartLimited(b *testing.B) { benchmarkStart(b, Config{}, messages.Limits{OpenFiles: 64}) }

func BenchmarkKillNoticed(b *testing.B) { benchmarkKill(b, Config{}) }

// The same without a cgroup for each program, for the price of one.
func BenchmarkStartWithoutGroup(b *testing.B) {
	benchmarkStart(b, Config{WithoutGroups: true}, messages.Limits{})
}

func BenchmarkKillNoticedWithoutGroup(b *testing.B) { benchmarkKill(b, Config{WithoutGroups: true}) }

func benchmarkKill(b *testing.B, cfg Config) {
	g := newGuardian(b, cfg)
	var took []time.Duration
	for b.Loop() {
		p, events := run(b, g, Spec{Argv: []string{"sleep", "60"}})
		began := time.Now()
		p.Kill()
		exit, _ := events.exit(b)
		took = append(took, time.Since(began))
		require.Equal(b, CauseStopped, exit.Cause)
	}
	quantiles(b, took, "kill")
}
