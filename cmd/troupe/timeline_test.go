package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/timeline"
	"github.com/troupe-run/troupe/store"
)

// lanes is a timeline with every lane.
func lanes() timeline.Timeline {
	at := func(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }
	return timeline.Timeline{
		Status: messages.Failed, Window: timeline.Window{From: at(0), To: at(94)},
		Wait: []timeline.Wait{
			{From: at(0), To: at(4), Cause: timeline.NotDue, Source: timeline.FromRow, Evidence: "its run_at had not come"},
			{From: at(4), To: at(40), Cause: "workers_busy", Source: timeline.FromJournal, Evidence: "pool python: workers busy for 73 % of it"},
			{From: at(40), To: at(55), Cause: timeline.OnQueue, Source: timeline.FromEvents, Evidence: "attempt 1 was on the queue of b/python/3"},
			{From: at(55), To: at(82), Cause: timeline.Unknown, Evidence: "the journal has nothing about the pool at this time"},
		},
		Attempts: []timeline.Attempt{
			{Attempt: 1, Worker: "b/python/3", ScheduledAt: at(40), EndedAt: at(55), Ended: "taken_back", Reason: "claim_timeout"},
			{Attempt: 2, Worker: "c/python/1", StartedAt: at(82), EndedAt: at(94), Ended: "failed", Reason: "action_error"},
		},
		Runs: []timeline.Run{{From: at(82), To: at(94), Attempt: 2, Outcome: "failed", Code: "action_error"}},
		Chain: []timeline.Link{
			{ID: messages.ExecutionID{1}, N: 1, From: at(-60), To: at(-50), Status: messages.Failed},
			{ID: messages.ExecutionID{2}, N: 2, From: at(0), To: at(94), Status: messages.Failed, Reason: "worker_lost"},
		},
		Worker:  []timeline.State{{From: at(0), To: at(94), Of: "c/python/1", What: "ready", Reason: "init_complete"}},
		Node:    []timeline.State{{From: at(50), Of: "b", What: "dead", Reason: "lease", By: "c"}},
		Session: []timeline.State{{From: at(0), To: at(94), Of: "python/u-17", What: "bound to c/python/1"}},
		Servers: []timeline.State{{From: at(60), To: at(69), Of: "broker", What: "away", Reason: "connection refused", By: "a"}},
	}
}

func TestTimelineTable(t *testing.T) {
	t.Parallel()
	v := lanes()
	golden(t, "timeline", plain(renderTable([]string{"LANE", "AT", "FOR", "WHAT", "WHY"}, timelineRows(&v))))
	heads, rows := fitTable(80, []string{"LANE", "AT", "FOR", "WHAT", "WHY"}, timelineRows(&v))
	for line := range strings.SplitSeq(plain(renderTable(heads, rows)), "\n") {
		require.LessOrEqual(t, lipgloss.Width(line), 80, line)
	}
}

func TestTimelineVerb(t *testing.T) {
	t.Parallel()
	body, err := json.Marshal(lanes())
	require.NoError(t, err)
	s := serve(t, map[string]string{"GET /api/v1/executions/" + id1 + "/timeline": string(body)})
	r := s.call(t, "timeline", id1)
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.out, "wait     +4.0s   36.0s  workers_busy")
	r = s.call(t, "timeline", id1, "-o", "json")
	require.Equal(t, 0, r.code, r.err)
	require.JSONEq(t, string(body), r.out)
}

// A moment of the wait says how many were before it, and how sure that is.
func TestThePlaceInLineOfATimeline(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`"cause":"workers_busy","evidence":"pool p: workers busy","line":{"ahead":3,"of":"pool"}`: "it waited: workers_busy (pool p: workers busy)\n3 others of its pool were before it\n",
		`"cause":"session_order","evidence":"e","line":{"ahead":1,"of":"session"}`:                "1 other of its session was before it\n",
		`"cause":"c","evidence":"e","line":{"ahead":0,"of":"pool"}`:                               "no other of its pool was before it\n",
		`"cause":"c","evidence":"e","line":{"ahead":0,"at_least":true,"of":"pool"}`:               "others of its pool may have been before it\n",
		`"cause":"c","evidence":"e","line":{"ahead":2,"at_least":true,"of":"pool"},"since":"2026-01-02T11:05:00Z"`: "at least 2 others of its pool were before it, of those requested since " +
			clock(time.Date(2026, 1, 2, 11, 5, 0, 0, time.UTC)) + "\n",
		`"cause":"not_due","evidence":"e"`: "it waited: not_due (e)\nit stood in no line\n",
		`"execution":"` + id1 + `"`:        "it did not wait then\n",
	} {
		s := serve(t, map[string]string{"GET /api/v1/executions/" + id1 + "/line": "{" + answer + "}"})
		r := s.call(t, "timeline", id1, "--at", "2026-01-02T11:07:00Z")
		require.Equal(t, 0, r.code, r.err)
		require.True(t, strings.HasSuffix(r.out, want), "%s: %q", answer, r.out)
	}
	r := serve(t, nil).call(t, "timeline", id1, "--at", "1h", "--since", "2h")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, "leave out --since")
}

// A part of a timeline says which one it is, and how to get what it leaves out.
func TestAPartOfATimeline(t *testing.T) {
	t.Parallel()
	v := lanes()
	v.Whole, v.Retries = v.Window, timeline.Retries{N: 70}
	v.Window.From = noon.Add(40 * time.Second)
	v.LeftOut = []timeline.LeftOut{
		{What: timeline.LeftRetries, N: 20, Next: "links_from=51"},
		{What: timeline.LeftEvents, N: 300, AtLeast: true, Next: "from=2026-01-02T12:00:00Z&to=2026-01-02T12:00:40Z"},
		{What: timeline.LeftTransitions, Of: "c/python/1", AtLeast: true},
	}
	body, err := json.Marshal(v)
	require.NoError(t, err)
	s := serve(t, map[string]string{"GET /api/v1/executions/" + id1 + "/timeline": string(body)})
	r := s.call(t, "timeline", id1, "--since", "2026-01-02T12:00:00Z", "--links-from", "1")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.out, "shown from +40.0s to +1m34s")
	require.Contains(t, r.out, "wait     +4.0s   36.0s  workers_busy", "AT counts from the request")
	require.Contains(t, r.out, "left out: 20 retries: --links-from 51\n"+
		"left out: at least 300 events: --since 2026-01-02T12:00:00Z --until 2026-01-02T12:00:40Z\nleft out: some transitions of c/python/1\n")
	r = s.call(t, "timeline", id1, "--since", "noon")
	require.Equal(t, 2, r.code)
}

func TestHistory(t *testing.T) {
	t.Parallel()
	inc := messages.Incarnation{1}
	golden(t, "history", plain(renderTable([]string{"NODE", "KIND", "SUBJECT", "WHAT", "WHY"}, without1(historyRows([]messages.JournalEntry{
		{At: noon, Incarnation: inc, Kind: messages.JournalOperator, Subject: "python", What: "cordon", Caller: "ann"},
		{At: noon, Incarnation: inc, Kind: messages.JournalPool, Subject: "python", What: "condition", Reason: "workers_busy",
			Detail: json.RawMessage(`{"until":"2026-01-02T12:00:01Z","then":"ready","shares":{"workers_busy":0.73,"ready":0.268,"workers_starting":0.002}}`)},
		{At: noon, Incarnation: inc, Kind: messages.JournalNode, Subject: inc.String(), What: "joined"},
		{At: noon, Incarnation: inc, Kind: messages.JournalNode, Subject: "x", What: "dead", Reason: string(store.EndLease)},
		{At: noon, Incarnation: messages.Incarnation{9, 15: 7}, Kind: messages.JournalServer, Subject: "store", What: "away", Reason: "connection refused"},
	}, []view.Node{{Node: store.Node{Incarnation: inc, Name: "a"}}})))))

	s := serve(t, map[string]string{
		"GET /api/v1/nodes":   `{"nodes":[]}`,
		"GET /api/v1/journal": `{"entries":[{"at":"2026-01-02T12:00:00Z","incarnation":"01a1feab-5d86-7105-9159-7b83bc0030fb","number":1,"kind":"node","subject":"x","what":"joined"}]}`,
	})
	r := s.call(t, "history", "--kinds", "node", "--since", "1h")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.out, "bc0030fb  node  x        joined")
	require.Zero(t, s.call(t, "history", "--subject", "python", "--subject", "py/a,b", "--not-subject", "go").code)
	require.Contains(t, s.asked, "GET /api/v1/journal?limit=100&not.subject=go&subject=python&subject=py%2Fa%2Cb")
	require.NotContains(t, r.out, "looked back")
	unsearched := `{"entries":[],"next_cursor":"x","more":"unsearched","searched_to":{"at":"2026-01-02T11:05:00Z"}}`
	s = serve(t, map[string]string{"GET /api/v1/nodes": `{"nodes":[]}`, "GET /api/v1/journal": unsearched})
	r = s.call(t, "history", "--what", "dead")
	require.Contains(t, r.out, "looked back to "+clock(time.Date(2026, 1, 2, 11, 5, 0, 0, time.UTC))+"; there may be more")
	require.NotContains(t, s.call(t, "history", "--what", "dead", "-o", "json").out, "looked back")
	r = s.call(t, "history", "--since", "noon")
	require.Equal(t, 2, r.code)
}

// without1 leaves out the first cell, whose text depends on the zone.
func without1(rows [][]string) [][]string {
	for i := range rows {
		rows[i] = rows[i][1:]
	}
	return rows
}
