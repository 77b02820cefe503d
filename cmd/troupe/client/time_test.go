package client

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
)

func TestAheadOf(t *testing.T) {
	t.Parallel()
	sent := time.Date(2030, 1, 31, 8, 0, 0, 900_000_000, time.UTC)
	for _, c := range []struct {
		header, date string
		took, ahead  time.Duration
		ok           bool
	}{
		{"2030-01-31T09:00:00.9Z", "Thu, 31 Jan 2030 08:00:00 GMT", time.Minute, time.Hour, true}, // a long poll: as of its begin
		{"", "Thu, 31 Jan 2030 08:00:00 GMT", 50 * time.Millisecond, 0, true},
		{"", "Thu, 31 Jan 2030 08:00:01 GMT", 200 * time.Millisecond, 0, true},
		{"", "Thu, 31 Jan 2030 08:00:02 GMT", 100 * time.Millisecond, 1500 * time.Millisecond, true},
		{"", "Thu, 31 Jan 2030 07:00:01 GMT", 100 * time.Millisecond, 500*time.Millisecond - time.Hour, true},
		{"noon", "", 0, 0, false},
	} {
		ahead, ok := aheadOf(http.Header{api.HeaderTime: {c.header}, "Date": {c.date}}, sent, sent.Add(c.took))
		require.Equal(t, c.ok, ok, c)
		require.Equal(t, c.ahead, ahead, c)
	}
}
