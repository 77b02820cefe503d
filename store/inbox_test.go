package store

import (
	"encoding/hex"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// The hash of a row of the inbox must not change: hashes of earlier rows are stored.
func TestASubmissionsHashStaysAsItWas(t *testing.T) {
	t.Parallel()
	three, nine := 3, messages.Priority(9)
	s := Submission{
		Action: "mail.send", Parameters: json.RawMessage(`{"to": "ada"}`), Session: "s", Affinity: messages.AffinityHint, Priority: &nine,
		RunAt: time.Date(2030, 1, 2, 3, 4, 5, 678901000, time.UTC), Timeout: 90*time.Second + time.Microsecond, IdempotencyKey: "key",
		MaxRetries: &three, Labels: map[string]string{"k": "v"}, CreatedBy: "shop",
	}
	r := s.Request()
	require.Equal(t, "e17742e429b14421f49ebdf97ba345dda9a5a8984abc2f17540e38579619e1b7", hex.EncodeToString(r.Hash()))
	require.Equal(t, "sql:shop", r.CreatedBy)
}
