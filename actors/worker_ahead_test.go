package actors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lifecycle"
)

// What comes to a worker whose run takes long is not claimed, or it would be claimed and given back again and again.
func TestNothingIsClaimedBehindALongRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &act{}
		s := play(t, a, nil)
		long := s.runs(nil)
		time.Sleep(2 * aheadWait)
		next := s.rows.add(idempotent)
		s.send(&Execute{Placements: []messages.Placement{next}, Ahead: 8})
		require.Equal(t, messages.Scheduled, s.rows.get(next).Status, "the claim sweep may take it back")
		s.ends(long, ok())
		require.Equal(t, messages.Running, s.rows.get(next).Status)
		s.ends(next, ok())
		require.Len(t, a.ran(), 2)
		s.is(lifecycle.Ready)
	})
}
