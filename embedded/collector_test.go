package embedded_test

import (
	"context"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/embedded"
)

// A program's node has the collector's target that the binary sets, until it stops. The target is the whole process's, so that this test
// does not run beside others.
func TestTheCollectorIsTunedWhileTheNodeRuns(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	n, err := embedded.New(embedded.Config{Data: t.TempDir()}, troupe.Action{Name: "demo.greet", Handler: greet})
	require.NoError(t, err)
	require.Equal(t, 100, collector(t))
	require.NoError(t, n.Start(t.Context()))
	require.Equal(t, 300, collector(t))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, n.Stop(ctx))
	require.Equal(t, 100, collector(t))
}

// collector is the collector's target, in percent.
func collector(t *testing.T) int {
	t.Helper()
	percent := debug.SetGCPercent(-1)
	debug.SetGCPercent(percent)
	return percent
}
