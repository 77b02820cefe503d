package pgtx

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe"
)

// The hash of a Go program's submission in the store's inbox must not change: hashes are stored.
func TestASubmissionsHashStaysAsItWas(t *testing.T) {
	t.Parallel()
	three, nine := 3, 9
	s := troupe.Submission{
		Action: "mail.send", Parameters: map[string]any{"to": "ada", "n": 1.5}, Session: "s", Affinity: troupe.Strict, Priority: &nine,
		RunAt: time.Date(2030, 1, 2, 3, 4, 5, 678901234, time.UTC), IdempotencyKey: "welcome", Timeout: 1500 * time.Millisecond,
		MaxRetries: &three, Labels: map[string]string{"b": "1", "a": "2"},
	}
	r, err := s.Request()
	require.NoError(t, err)
	row := (&Client{by: "shop"}).submission(&r)
	asked := row.Request()
	require.Equal(t, "0088b60c61b7f942b0a402a494d6a26755da4a3e99f180fe3a71964c35dd7378", hex.EncodeToString(asked.Hash()))
}
