package node

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/store/clock"
)

func TestASkewIsTold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		skew   clock.Skew
		served bool
		want   string
	}{
		{clock.Skew{}, true, ""},
		{clock.Skew{Ahead: time.Hour}, true, ""},
		{clock.Skew{Ahead: time.Second, Known: true}, true, ""},
		{clock.Skew{Ahead: 5 * time.Second, Error: 4 * time.Second, Known: true}, true, ""},
		{clock.Skew{Ahead: 30 * time.Second, Error: time.Millisecond, Known: true}, true, "30.0 s ahead of the store's: work goes by the store's clock"},
		{clock.Skew{Ahead: -10 * time.Minute, Known: true}, true, "600.0 s behind the store's: work goes by the store's clock"},
		{clock.Skew{Ahead: -10 * time.Minute, Known: true}, false, "600.0 s behind the store's: the embedded store's clock never goes back"},
	} {
		require.Contains(t, skewNote(c.skew, c.served), c.want)
		require.Equal(t, c.want == "", skewNote(c.skew, c.served) == "")
	}
}

// The log tells each change once, with the amount, and not each sample.
func TestASkewIsLoggedOnChange(t *testing.T) {
	t.Parallel()
	out := &bytes.Buffer{}
	s := skew{clocks: hclog.New(&hclog.LoggerOptions{Output: out, JSONFormat: true})}
	lines := func(ahead ...time.Duration) int {
		out.Reset()
		for _, a := range ahead {
			s.note(clock.Skew{Ahead: a, Known: true}, true)
		}
		return strings.Count(out.String(), "\n")
	}
	require.Zero(t, lines(0, time.Second, -time.Second))
	require.Equal(t, 1, lines(30*time.Second, 30*time.Second, 33*time.Second))
	require.Contains(t, out.String(), `"ahead_seconds":30`)
	require.Equal(t, 1, lines(-30*time.Second, -30*time.Second, -28*time.Second))
	require.Equal(t, 1, lines(0, time.Millisecond))
	require.Contains(t, out.String(), `"was_ahead_seconds":-30`)
	require.Equal(t, 2, lines(1500*time.Millisecond, 900*time.Millisecond, 0))
}
