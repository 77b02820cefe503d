package api

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

func TestAMarkIsAnEntryOfTheJournal(t *testing.T) {
	t.Parallel()
	h, _ := guarded(t)
	auth := []string{"Authorization", "Bearer " + adminToken}
	at := time.Now().Add(-time.Hour).UTC().Truncate(time.Microsecond)
	answer := ask(t, h, "POST", "/api/v1/marks", `{"name":"deploy 1.4.2","at":"`+at.Format(time.RFC3339Nano)+`","labels":{"by":"ci"}}`, auth...)
	require.NotContains(t, answer.Body.String(), "number", "it is given when the entry is written")
	made := read[MarkView](t, answer, 201)
	require.Equal(t, at, made.At)
	require.Equal(t, "boss", made.Caller)
	list := read[JournalList](t, ask(t, h, "GET", "/api/v1/journal?kinds=mark", "", auth...), 200)
	require.Len(t, list.Entries, 1)
	require.Equal(t, "deploy 1.4.2", list.Entries[0].Subject)
	require.JSONEq(t, `{"labels":{"by":"ci"}}`, string(list.Entries[0].Detail))
	now := read[MarkView](t, ask(t, h, "POST", "/api/v1/marks", `{"name":"now"}`, auth...), 201)
	require.WithinDuration(t, time.Now(), now.At, time.Minute)
	for body, why := range map[string]string{
		`{}`: "name", `{"name":"` + strings.Repeat("x", 129) + `"}`: "129 bytes", `{"name":"a\u0001"}`: "control", `{"name":"a","at":"2001-01-01T00:00:00Z"}`: "30 days",
		`{"name":"a","at":"` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `"}`: "30 days", `{"name":"a","labels":{"k":"` + strings.Repeat("x", 3000) + `"}}`: "labels",
	} {
		refused(t, ask(t, h, "POST", "/api/v1/marks", body, auth...), 400, messages.CodeInvalidRequest, why)
	}
}

// Whoever marks more than the node takes hears that the mark is not recorded.
func TestAMarkThatIsNotRecordedIsRefused(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.marksFull = true
	h := New(Config{Backend: b})
	refused(t, ask(t, h, "POST", "/api/v1/marks", `{"name":"deploy 1.4.2"}`), 429, messages.CodeTooManyRequests, `"deploy 1.4.2" is not recorded`)
	require.Empty(t, read[JournalList](t, ask(t, h, "GET", "/api/v1/journal?kinds=mark", ""), 200).Entries)
}

// A command may say why; whoever carries it out gets that with the call. Without a body it is as before.
func TestACommandMaySayWhy(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b})
	cordon := "/api/v1/pools/go/cordon"
	require.Equal(t, 200, ask(t, h, "POST", cordon, "").Code)
	require.Equal(t, 200, ask(t, h, "POST", cordon, `{"reason":", for maintenance"}`).Code)
	require.Equal(t, []string{"pool go true by local", "pool go true by local, for maintenance"}, b.cordons)
	refused(t, ask(t, h, "POST", cordon, `{"reason":"`+strings.Repeat("x", 513)+`"}`), 400, messages.CodeInvalidRequest, "513 bytes")
	refused(t, ask(t, h, "POST", cordon, `{"why":"x"}`), 400, messages.CodeUnknownField, "why")
	require.Len(t, b.cordons, 2)
	for _, rt := range routes() {
		steers := rt.scope == ScopeOperate || rt.scope == ScopeAdmin
		own := strings.HasSuffix(rt.path, "/retry") || strings.HasPrefix(rt.path, "/api/v1/bulk") // whose bodies say why among other things
		require.Equal(t, steers && rt.method != "GET" && !own, rt.reason, "%s %s", rt.method, rt.path)
	}
}
