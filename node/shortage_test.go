package node

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func TestShortagesAreToldOnceAMinute(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	registry := prometheus.NewRegistry()
	s := newShortages(hclog.New(&hclog.LoggerOptions{Output: &log}), newFlowMetrics(registry).short)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	require.Empty(t, s.notes(now))
	for range 1000 {
		s.noteAt("core.shell", errors.New("pipe2: too many open files"), now)
	}
	require.Equal(t, 1, strings.Count(log.String(), "\n"))
	require.Contains(t, log.String(), "too many open files")
	notes := s.notes(now.Add(shortFor - 1))
	require.Len(t, notes, 1)
	require.Contains(t, notes[0], "1000 starts")
	require.Contains(t, notes[0], "too many open files")
	require.Empty(t, s.notes(now.Add(shortFor)), "it is over as far as is known")
	s.noteAt("core.shell", errors.New("pipe2: too many open files"), now.Add(shortFor))
	require.Equal(t, 2, strings.Count(log.String(), "\n"))
	require.Contains(t, log.String(), "left_out=999")
	require.Contains(t, s.notes(now.Add(shortFor))[0], "1 starts")
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "troupe_worker_start_shortages_total" {
			require.InDelta(t, 1001, f.GetMetric()[0].GetCounter().GetValue(), 0)
			return
		}
	}
	require.Fail(t, "nothing was counted")
}
