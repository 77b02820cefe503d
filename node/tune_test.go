package node

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// These tests change what the whole process shares, so they do not run beside others.

func TestTheCollectorIsTunedUntilTheLastNodeEnds(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(goDefault))
	first, second := Tune(), Tune()
	require.EqualValues(t, collectAt, collectorTarget())
	first()
	first()
	require.EqualValues(t, collectAt, collectorTarget())
	second()
	require.EqualValues(t, goDefault, collectorTarget())
}

func TestAProgramsOwnTargetStays(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	end := Tune()
	require.EqualValues(t, 50, collectorTarget())
	end()
	require.EqualValues(t, 50, collectorTarget())

	debug.SetGCPercent(goDefault)
	end = Tune()
	debug.SetGCPercent(80) // after the start
	end()
	require.EqualValues(t, 80, collectorTarget())

	debug.SetGCPercent(goDefault)
	t.Setenv("GOGC", "100")
	Tune()()
	require.EqualValues(t, goDefault, collectorTarget(), "GOGC says so")
}
