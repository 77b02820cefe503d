package troupe

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A submission of a Go program has the hash that it had always.
func TestASubmissionsHashStaysAsItWas(t *testing.T) {
	t.Parallel()
	three, nine := 3, 9
	s := Submission{
		Action: "mail.send", Parameters: map[string]any{"to": "ada", "n": 1.5}, Session: "s", Affinity: Strict, Priority: &nine,
		RunAt: time.Date(2030, 1, 2, 3, 4, 5, 678901234, time.UTC), IdempotencyKey: "welcome", Timeout: 1500 * time.Millisecond,
		MaxRetries: &three, Labels: map[string]string{"b": "1", "a": "2"},
	}
	r, err := s.Request()
	require.NoError(t, err)
	require.Equal(t, "dfb50bbb2dc1e142da548cb8f97f3d58e1eb7f3c423348e57c8d10c87e4c016b", hex.EncodeToString(r.Hash()))
}
