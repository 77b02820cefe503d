package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTimesOfAListAreMomentsOrAges(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ since, until, from, to string }{
		{"", "", "", ""}, {"2h", "", "2030-01-31T10:00:00Z", ""}, {"2h", "30m", "2030-01-31T10:00:00Z", "2030-01-31T11:30:00Z"},
		{"2030-01-31T08:00:00+01:00", "0s", "2030-01-31T07:00:00Z", "2030-01-31T12:00:00Z"},
	} {
		s, err := newSpan(c.since, c.until, func() (time.Time, error) { return now, nil })
		require.NoError(t, err)
		for at, want := range map[time.Time]string{s.since: c.from, s.until: c.to} {
			if want != "" {
				require.Equal(t, want, at.UTC().Format(time.RFC3339))
			}
		}
	}
	for _, c := range []struct{ since, until, want string }{
		{"noon", "", `--since "noon" must be a time such as 2030-01-31T08:00:00Z, or an age such as 2h`},
		{"", "2030-01-31", `--until "2030-01-31" must be`}, {"-2h", "", "--since"}, {"1h", "2h", "--since 1h is not before --until 2h"},
	} {
		_, err := newSpan(c.since, c.until, func() (time.Time, error) { return now, nil })
		require.ErrorContains(t, err, c.want)
	}
}

// listed is a node with many executions, one a second, the newest at now. It counts the pages that are read.
func listed(t *testing.T, now time.Time, count int) (address string, pages *int) {
	t.Helper()
	pages = new(int)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*pages++
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
		var rows []string
		for i := from; i < min(from+limit, count); i++ {
			rows = append(rows, fmt.Sprintf(`{"id":"01900000-0000-7000-8000-%012d","action_ref":"a.b","status":"completed","requested_at":%q}`,
				i, now.Add(-time.Duration(i)*time.Second).Format(time.RFC3339Nano)))
		}
		next := ""
		if from+limit < count {
			next = fmt.Sprintf(`,"next_cursor":"%d"`, from+limit)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"executions":[%s]%s}`, strings.Join(rows, ","), next)
	}))
	t.Cleanup(s.Close)
	return s.URL, pages
}

func TestAListKeepsToItsTime(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC().Truncate(time.Second)
	at := func(seconds int) string { return now.Add(-time.Duration(seconds) * time.Second).Format(time.RFC3339) }
	for _, c := range []struct {
		args        []string
		first, last int
		pages       int
	}{
		{[]string{"--since", at(5)}, 0, 5, 5},
		{[]string{"--since", at(2003), "--until", at(1999)}, 2000, 2003, 0},
		{[]string{"--until", at(1999), "-n", "3"}, 2000, 2002, 0},
		{[]string{"--until", at(2999)}, 3000, 3000, 0},
	} {
		url, pages := listed(t, now, 3001)
		r := call(t, "", []string{"TROUPE_SERVER=" + url}, append([]string{"list"}, c.args...)...)
		require.Zero(t, r.code, r.err)
		ids := strings.Count(r.out, "01900000-0000-7000-8000-")
		require.Equal(t, c.last-c.first+1, ids, "%v\n%s", c.args, r.out)
		require.Contains(t, r.out, fmt.Sprintf("-8000-%012d", c.first))
		require.Contains(t, r.out, fmt.Sprintf("-8000-%012d", c.last))
		if c.pages > 0 {
			require.LessOrEqual(t, *pages, c.pages, "what is older than the time is not read")
		}
	}
}

func TestACellIsCutBetweenWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{"short", 10, "short"}, {"exactly ten", 11, "exactly ten"}, {"no module named numpy", 18, "no module named…"},
		{"no module named numpy", 17, "no module named…"}, {"no module named numpy", 16, "no module named…"}, {"no module named numpy", 15, "no module…"},
		{"averyveryverylongword", 10, "averyvery…"}, {"a averyveryverylongword", 10, "a averyve…"}, {"äöü äöü äöü", 8, "äöü äöü…"},
	} {
		require.Equal(t, c.want, clipTo(c.text, c.limit), "%q to %d", c.text, c.limit)
	}
	rapid.Check(t, func(t *rapid.T) {
		text, limit := rapid.StringMatching(`[a-zäö ]{0,60}`).Draw(t, "text"), rapid.IntRange(2, 40).Draw(t, "limit")
		require.LessOrEqual(t, len([]rune(clipTo(text, limit))), max(limit, 0))
	})
}

// A table that is not all there is says so beside it. JSON has the cursor.
func TestAListSaysThatThereIsMore(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC().Truncate(time.Second)
	executions, _ := listed(t, now, 21)
	others := serve(t, map[string]string{
		"GET /api/v1/operations": `{"operations":[{"id":"01900000-0000-7000-8000-000000000001","kind":"retry","state":"done"}],"next_cursor":"c"}`,
		"GET /api/v1/webhooks":   `{"webhooks":[],"next_cursor":"c"}`,
		"GET /api/v1/sessions":   `{"sessions":[],"next_cursor":"c"}`,
		"GET /api/v1/nodes":      `{"nodes":[]}`, "GET /api/v1/dead-letters": `{"dead_letters":[],"next_cursor":"c"}`,
	})
	for _, c := range []struct{ server, args, says string }{
		{executions, "list", "20 shown; more with -n\n"}, {executions, "list -n 21", ""}, {executions, "list -n 22", ""}, {executions, "list -o json", ""},
		{executions, "list --until " + now.Add(time.Hour).Format(time.RFC3339) + " -n 3", "3 shown; more with -n\n"},
		{executions, "list --since " + now.Add(-4*time.Second).Format(time.RFC3339), ""},
		{others.URL, "operations", "1 shown; more with -n\n"}, {others.URL, "operations -o json", ""}, {others.URL, "webhooks", "0 shown; more with -n\n"},
		{others.URL, "sessions", "0 shown; more with -n\n"}, {others.URL, "dead-letters", "0 shown; more with -n\n"},
	} {
		r := call(t, "", []string{"TROUPE_SERVER=" + c.server}, strings.Fields(c.args)...)
		require.Zero(t, r.code, r.err)
		require.Equal(t, c.says, r.err, c.args)
	}
}

// A server that always has one more page is left after a bounded number of them.
func TestPagesThatDoNotEnd(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{
		"GET /api/v1/workers":    `{"workers":[],"next_cursor":"again"}`,
		"GET /api/v1/executions": `{"executions":[],"next_cursor":"again"}`,
	})
	for _, list := range []string{"workers", "list"} {
		r := call(t, "", []string{"TROUPE_SERVER=" + s.URL}, list)
		require.NotZero(t, r.code, list)
		require.Contains(t, r.err, "has not ended after 1000 pages", list)
	}
	require.Len(t, s.asked, 2*pagesMax)
}
