package bench

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/sdk"
)

// ownStart is the time of a Python worker from its start to its answer to hello, without a node: the median of ten.
func ownStart(b *testing.B) time.Duration {
	b.Helper()
	data := b.TempDir()
	if err := sdk.Materialize(data); err != nil {
		b.Fatal(err)
	}
	guardian, err := process.NewGuardian(process.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer guardian.Close()
	spec := process.Spec{
		Argv: []string{"python3", "-m", "troupe_worker"}, Framed: true,
		Env: append(os.Environ(), "PYTHONPATH="+sdk.PythonPath(data), "TROUPE_PROTOCOL=1", "PYTHONDONTWRITEBYTECODE=1"),
	}
	var samples []time.Duration
	for range 10 {
		samples = append(samples, hello(b, guardian, spec))
	}
	return median(samples)
}

// hello starts a program, waits for its answer to hello, and ends it.
func hello(b *testing.B, launcher process.Launcher, spec process.Spec) time.Duration {
	b.Helper()
	replied, exited := make(chan struct{}, 1), make(chan struct{})
	began := time.Now()
	p, err := launcher.Start(context.Background(), spec, func(e process.Event) {
		switch e.(type) {
		case process.Reply:
			replied <- struct{}{}
		case process.Exited:
			close(exited)
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := p.Send("hello", map[string]any{"protocol": 1, "actions": []any{}}); err != nil {
		b.Fatal(err)
	}
	select {
	case <-replied:
	case <-time.After(time.Minute):
		b.Fatal("no answer to hello")
	}
	took := time.Since(began)
	p.Kill()
	<-exited
	return took
}
