package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
)

func TestTopShowsWhatTheNodeSays(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{
		"GET /api/v1/pools":      `{"pools":[{"name":"go","runtime":"go","workers":3,"ready":2,"busy":1}]}`,
		"GET /readyz":            `!503{"ready":false,"waits_for":["store","pool go is starting"]}`,
		"GET /api/v1/executions": `{"executions":[` + execution(id1, "running", `,"worker":"n1/go/0","session":"alice"`) + `]}`,
	})
	c, err := client.New(s.URL, "")
	require.NoError(t, err)
	defer c.Close()
	m := topModel{ctx: t.Context(), client: c, limit: time.Minute, clock: time.Now}
	next, again := m.Update(m.look())
	require.NotNil(t, again, "it looks again")
	text := plain(next.(topModel).View().Content)
	for _, want := range []string{"not ready: store, pool go is starting", "go    go       ok", id1, "alice"} {
		require.Contains(t, text, want)
	}
	paused, _ := next.Update(tea.KeyPressMsg{Code: 'p', Text: "p"})
	require.Contains(t, strings.Split(plain(paused.(topModel).View().Content), "\n")[0], "PAUSED", "the first line shows it, which no screen is too small for")
	_, quit := paused.Update(tea.KeyPressMsg{Code: 'q', Text: "q"})
	require.IsType(t, tea.QuitMsg{}, quit())
	s.Close()
	require.Contains(t, m.look().render(0, 0, false), "no node answers", "and a node that is gone is shown as gone")
}

// manyOf are executions that began one second after another, the newest first, as a node lists them.
func manyOf(n int, at time.Time, status messages.Status) []form.ExecutionView {
	list := make([]form.ExecutionView, n)
	for i := range list {
		list[i] = form.ExecutionView{ID: messages.NewExecutionID(), ActionRef: "demo.a_rather_long_name_of_an_action", Status: status, Worker: "a-machine/python/12"}
		list[i].RequestedAt, list[i].StartedAt = at.Add(-time.Duration(i+1)*time.Second), at.Add(-time.Duration(i+1)*time.Second)
	}
	return list
}

// Whatever there is, it fits the screen, and what does not fit is counted.
func TestTopFitsTheScreen(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for _, size := range [][2]int{{80, 24}, {120, 40}, {200, 60}, {80, 13}} {
		for _, count := range []int{0, 1, 3, 12, topRows} {
			v := topView{Server: "http://127.0.0.1:7070", At: now, Ready: api.Readiness{Ready: true}, Runs: 10 * count, Waits: 700 * count, More: true}
			for i := range count {
				v.Pools = append(v.Pools, view.Pool{Name: fmt.Sprintf("pack%d.pool", i), Runtime: "python", Workers: 4, Broken: i == 0,
					Reason: "worker initialization failed: action hello.greet: load actions/greet.py: ModuleNotFoundError: No module named x"})
			}
			v.Running, v.Waiting = manyOf(count, now, messages.Running), manyOf(count, now, messages.Requested)
			lines := strings.Split(strings.TrimSuffix(plain(v.render(size[0], size[1], true)), "\n"), "\n")
			require.LessOrEqual(t, len(lines), size[1], "%v %d:\n%s", size, count, strings.Join(lines, "\n"))
			for _, line := range lines {
				require.LessOrEqual(t, len([]rune(line)), size[0], line)
			}
			text := strings.Join(lines, "\n")
			require.Contains(t, lines[0], "PAUSED")
			if count > 0 {
				require.Contains(t, text, v.Running[0].ID.String())
				require.Contains(t, text, v.Waiting[0].ID.String())
				require.Regexp(t, `… and \d+ more run, for less long`, text)
				require.Regexp(t, `… and \d+\+ more wait, for less long`, text)
			}
			if count == topRows {
				require.Regexp(t, `… and \d+ more pools`, text)
			}
		}
	}
}

func TestTopShowsTheLongestFirst(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{
		"GET /api/v1/pools":      `{"pools":[{"name":"go","runtime":"go","running":40,"waiting":2}]}`,
		"GET /readyz":            `{"ready":true}`,
		"GET /api/v1/executions": `{"executions":[` + execution(id2, "running", `,"started_at":"2026-01-02T12:00:09Z"`) + "," + execution(id1, "running", `,"started_at":"2026-01-02T12:00:01Z"`) + `]}`,
	})
	c, err := client.New(s.URL, "")
	require.NoError(t, err)
	defer c.Close()
	v := topModel{ctx: t.Context(), client: c, limit: time.Minute, clock: time.Now}.look()
	require.NoError(t, v.err)
	require.Equal(t, id1, v.Running[0].ID.String())
	require.Contains(t, plain(v.render(0, 0, false)), "… and 38 more run, for less long")
}

// Of very many only the newest are looked at, and it says so.
func TestTopSaysWhatItDidNotLookAt(t *testing.T) {
	t.Parallel()
	require.Equal(t, "wait, for less long", others("wait", 0, true, false))
	require.Equal(t, "wait; shown are the longest of the newest 1000", others("wait", 1000, true, true))
}

// What is not due yet waits for its time and for nobody: it hides none of those that wait for a worker, however many there are.
func TestTopShowsWhatIsDue(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC()
	later := manyOf(6*topPage, now, messages.Requested)
	for i := range later {
		later[i].RunAt = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	waiting := manyOf(12, now, messages.Scheduled)
	early := &waiting[0] // requested long ago for a moment of which little is over
	early.RequestedAt, early.RunAt = now.Add(-time.Hour), now.Add(-time.Second)
	list := slices.Concat(later, waiting)
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any = map[string]any{"ready": true}
		switch r.URL.Path {
		case "/api/v1/pools":
			answer = api.PoolList{Pools: []view.Pool{{Name: "go", Runtime: "go", Waiting: len(list)}}}
		case "/api/v1/executions":
			page := api.ExecutionList{Executions: []form.ExecutionView{}}
			if strings.HasPrefix(r.URL.Query().Get("status"), "requested") {
				asked++
				at, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
				page.Executions = list[at:min(at+topPage, len(list))]
				if at+topPage < len(list) {
					page.NextCursor = strconv.Itoa(at + topPage)
				}
			}
			answer = page
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer s.Close()
	c, err := client.New(s.URL, "")
	require.NoError(t, err)
	defer c.Close()
	at := now
	m := topModel{ctx: t.Context(), client: c, limit: time.Minute, clock: func() time.Time { at = at.Add(time.Millisecond); return at }} // each page takes a millisecond
	m.view = m.look()
	require.NoError(t, m.view.err)
	require.Len(t, m.view.Waiting, len(waiting))
	require.Equal(t, waiting[11].ID, m.view.Waiting[0].ID, "the longest first")
	require.Equal(t, early.ID, m.view.Waiting[11].ID, "it waits since it is due")
	text := plain(m.view.render(80, 24, false))
	require.Contains(t, text, waiting[11].ID.String())
	require.Regexp(t, `… and 60\d\d more wait, for less long or for their time`, text)
	pages := asked
	m.view = m.look()
	require.Equal(t, pages, asked, "so many pages are not read each second")
	require.Len(t, m.view.Waiting, len(waiting))
	list = later[:3]
	m.view = topView{}
	require.Contains(t, plain(m.look().render(80, 24, false)), "… and 3 more wait, for their time alone")
}
