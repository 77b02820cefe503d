package roster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/rules/health"
)

// A heartbeat is as old as health allows when so many intervals are over as the roster allows.
func TestTheDefaultsAgree(t *testing.T) {
	t.Parallel()
	d := Defaults()
	require.Equal(t, health.Defaults().Heartbeat, time.Duration(float64(d.SteadyAfter)*d.StaleTimes))
	require.Equal(t, health.Defaults().Heartbeat, d.StaleAfter)
}
