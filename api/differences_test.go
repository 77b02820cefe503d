package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/differences"
)

func TestDifferencesAreOfARangeAndTheOneBefore(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	path := "/api/v1/differences"
	d := read[differences.Differences](t, ask(t, h, "GET", path+"?from=2030-01-31T08:00:00Z&to=2030-01-31T08:10:00Z", ""), 200)
	at := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	require.Equal(t, []time.Time{at.Add(-10 * time.Minute), at, at.Add(10 * time.Minute)}, []time.Time{d.Before, d.From, d.To})
	require.Len(t, d.Found, 2)
	require.Equal(t, differences.Difference{
		Of: differences.Error, Subject: "core.fail", Code: "boom", What: differences.Failed, Unit: differences.Number, Value: 3, Weight: d.Found[0].Weight,
		Text:    "core.fail failed with boom",
		Link:    "errors?action=core.fail&error=boom&from=2030-01-31T08%3A00%3A00Z&to=2030-01-31T08%3A10%3A00Z",
		Earlier: "errors?action=core.fail&error=boom&from=2030-01-31T07%3A50%3A00Z&to=2030-01-31T08%3A00%3A00Z",
	}, d.Found[0])
	d = read[differences.Differences](t, ask(t, h, "GET", path, ""), 200)
	require.WithinDuration(t, time.Now(), d.To, time.Minute, "without a range it is the last hour")
	require.Equal(t, time.Hour, d.To.Sub(d.From).Round(time.Hour))
	for query, why := range map[string]string{
		"from=x": "from must be a time", "from=2030-01-31T08:00:00Z&to=2030-01-31T08:00:00Z": "before to", "from=2030-01-31T08:00:00Z&to=2030-06-30T08:00:00Z": "45 days",
		"since=1h": "",
	} {
		refused(t, ask(t, h, "GET", path+"?"+query, ""), 400, messages.CodeInvalidRequest, why)
	}
}
