package api

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

func TestFailuresAreAnsweredInGroups(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b})
	for _, message := range []string{"row 1 is bad", "row 2 is bad"} {
		id := mustID(t, submitted(t, h, `{"action_ref":"core.fail"}`).ID.String())
		o := messages.Outcome{Status: messages.Failed, Error: &messages.Error{Code: "boom", Message: message}}
		_, err := b.Apply(t.Context(), []store.Change{&store.End{ID: id, Outcome: o}})
		require.NoError(t, err)
	}
	submitted(t, h, `{"action_ref":"core.fail"}`)
	path := "/api/v1/errors"
	got := read[ErrorGroups](t, ask(t, h, "GET", path, ""), 200)
	require.Equal(t, 2, got.Executions)
	require.Equal(t, time.Hour, got.To.Sub(got.From))
	require.Equal(t, store.MoreEnd, got.More)
	require.Nil(t, got.SearchedTo)
	require.Len(t, got.Groups, 1)
	require.Equal(t, "row ‹n› is bad", got.Groups[0].Message)
	require.Len(t, got.Groups[0].Examples, 2)
	require.Zero(t, got.KeptFrom)
	b.kept = got.From.Add(time.Minute)
	require.Zero(t, read[ErrorGroups](t, ask(t, h, "GET", path+"?from="+url.QueryEscape(got.From.Add(2*time.Minute).Format(time.RFC3339)), ""), 200).KeptFrom)
	require.True(t, b.kept.Equal(read[ErrorGroups](t, ask(t, h, "GET", path+"?from="+url.QueryEscape(got.From.Format(time.RFC3339)), ""), 200).KeptFrom), "what failed before is deleted")
	got = read[ErrorGroups](t, ask(t, h, "GET", path+"?by=code&status=timed_out", ""), 200)
	require.Equal(t, []any{0, 0}, []any{got.Executions, len(got.Groups)})
	b.more = store.MoreUnsearched
	// Another question: where the walk took long, the answer to the first one is given again.
	require.NotNil(t, read[ErrorGroups](t, ask(t, h, "GET", path+"?limit=2", ""), 200).SearchedTo)
	for query, why := range map[string]string{
		"by=odd": "by must be message, code, action or worker", "limit=0": "limit", "limit=201": "200", "status=completed": "status must be failed, timed_out or abandoned", "from=x": "from must be a time",
		"from=2030-01-01T00:00:00Z&to=2030-03-01T00:00:00Z": "31 days", "cursor=x": "cursor",
	} {
		refused(t, ask(t, h, "GET", path+"?"+query, ""), 400, messages.CodeInvalidRequest, why)
	}
}
