package roster

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
)

var update = flag.Bool("update", false, "write the transcripts' effect lines anew")

// epoch0 is the moment at which every test's clock starts.
var epoch0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Each file in testdata is a transcript: an unindented line is an event ("<clock> <event> <arguments>"), the indented
// lines that follow are its effects. "why <id>", "free" and "openings" ask instead. A first line "# claims" has what is offered claimed
// as it is stored. With -update the effects are written anew.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			got := replay(t, string(raw))
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
				return
			}
			require.Equal(t, string(raw), got)
		})
	}
}

func replay(t *testing.T, script string) string {
	t.Helper()
	var out strings.Builder
	config := Config{}
	if strings.HasPrefix(script, "# claims\n") {
		config.Claims = slotKey(0).Incarnation
	}
	r := New(config)
	for _, text := range strings.Split(strings.TrimRight(script, "\n"), "\n") {
		if strings.HasPrefix(text, "    ") {
			continue
		}
		out.WriteString(text + "\n")
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		for _, effect := range perform(t, r, text) {
			out.WriteString("    " + effect + "\n")
		}
	}
	return out.String()
}

// perform runs one line against the roster and renders what comes of it.
func perform(t *testing.T, r *Roster, text string) (lines []string) {
	t.Helper()
	words := strings.Fields(text)
	d, err := time.ParseDuration(words[0])
	require.NoError(t, err, text)
	now := epoch0.Add(d)
	switch words[1] {
	case "why":
		return []string{r.Why(now, idOf(words[2])).String()}
	case "openings":
		return []string{fmt.Sprintf("openings=%d", r.Openings())}
	case "free":
		return []string{fmt.Sprintf("free=%d window=%d drained=%t", r.free, r.window, r.Drained())}
	}
	for _, e := range r.Step(now, parseEvent(t, words[1], words[2:])) {
		lines = append(lines, render(e))
	}
	return lines
}

// args are "key=value" and bare words of a line.
type args map[string]string

func parseArgs(words []string) (bare []string, a args) {
	a = args{}
	for _, w := range words {
		if k, v, ok := strings.Cut(w, "="); ok && !strings.Contains(k, ":") {
			a[k] = v
		} else {
			bare = append(bare, w)
			a[w] = "yes"
		}
	}
	return bare, a
}

func (a args) has(k string) bool { return a[k] != "" }

func (a args) num(k string) int {
	n, _ := strconv.Atoi(a[k])
	return n
}

func (a args) at(k string) time.Time {
	if d, err := time.ParseDuration(a[k]); err == nil {
		return epoch0.Add(d)
	}
	return time.Time{}
}

func parseEvent(t *testing.T, name string, words []string) Event {
	t.Helper()
	bare, a := parseArgs(words)
	switch name {
	case "seen":
		return parseSeen(bare[0], a)
	case "gone":
		return WorkerGone{Worker: keyOf(bare[0]), Restarts: a.has("restarts")}
	case "beats":
		e := Beats{At: a.at("at")}
		for _, w := range bare {
			e.Workers = append(e.Workers, keyOf(w))
		}
		return e
	case "loaded":
		return parseLoaded(bare, a)
	case "offered":
		return Offered{Candidates: candidatesOf(bare)}
	case "arrived":
		return Arrived{Candidates: candidatesOf(bare)}
	case "wake":
		return Wake{}
	case "tick":
		return Tick{}
	case "resigned":
		return Resigned{}
	case "withdrawn":
		return Withdrawn{ID: idOf(bare[0])}
	case "session":
		e := SessionMoved{Session: bare[0], Asked: !slices.Contains(bare[1:], "unasked"), Epoch: int64(a.num("epoch")), FinishedEpoch: int64(a.num("finished")), StartedEpoch: int64(a.num("started")),
			TouchedAt: a.at("touched")}
		if a.has("on") {
			e.Worker = keyOf(a["on"])
		}
		return e
	}
	return parseAnswer(t, name, bare, a)
}

func parseAnswer(t *testing.T, name string, bare []string, a args) Event {
	t.Helper()
	var ps []messages.Placement
	for _, b := range bare {
		if strings.Contains(b, "#") {
			ps = append(ps, placementOf(b))
		}
	}
	require.NotEmpty(t, ps, name)
	switch name {
	case "placed":
		return Placed{ID: ps[0].Execution, Attempt: ps[0].Attempt, OK: !a.has("no"),
			SessionConflict: a.has("conflict"), ClaimBy: a.at("by")}
	case "published":
		return Published{Placements: ps, OK: !a.has("no")}
	case "claimed":
		return Claimed{Placement: ps[0], Worker: keyOf(bare[1])}
	case "ended":
		took, _ := time.ParseDuration(a["took"])
		return Ended{Placement: ps[0], Took: took, Finished: !a.has("lost"), Restored: a.has("restored")}
	case "released":
		e := Released{Placement: ps[0]}
		if a.has("of") {
			e.Worker = keyOf(a["of"])
		}
		return e
	case "holding":
		return Holding{Placement: ps[0], Worker: keyOf(bare[1]), Session: a["session"], Epoch: int64(a.num("epoch")),
			Running: a.has("running"), ClaimBy: a.at("by"), TakeBacks: a.num("taken")}
	}
	require.Fail(t, "unknown event "+name)
	return nil
}

func parseSeen(name string, a args) Event {
	e := WorkerSeen{Worker: keyOf(name), ID: messages.WorkerID("n/p/" + name), Generation: 1, Accepts: true,
		Active: !a.has("cordoned"), Grade: health.Healthy, BeatAt: epoch0, Broken: a.has("broken"),
		Starting: a.has("starting"), Direct: a.has("direct")}
	if a.has("beat") {
		e.BeatAt = a.at("beat")
	}
	if a.has("gen") {
		e.Generation = messages.Generation(a.num("gen"))
	}
	switch {
	case a.has("degraded"):
		e.Grade = health.Degraded
	case a.has("unhealthy"):
		e.Grade = health.Unhealthy
	}
	if e.Starting || a.has("refusing") {
		e.Accepts = false
	}
	return e
}

// parseLoaded reads candidates: id[/priority=n][/session=s][/mode=m][/avoid=w][/taken=n][/wait]. An id's letter gives
// its place in the store's order.
func parseLoaded(words []string, a args) Event {
	named := slices.DeleteFunc(words, func(w string) bool { return w == "more" || w == "failed" })
	return Loaded{Candidates: candidatesOf(named), More: a.has("more"), Failed: a.has("failed"), NextAt: a.at("next")}
}

func candidatesOf(words []string) (all []messages.Candidate) {
	for _, w := range words {
		all = append(all, candidateOf(w))
	}
	return all
}

func candidateOf(text string) messages.Candidate {
	id, rest, _ := strings.Cut(text, ":")
	_, a := parseArgs(strings.Split(rest, ","))
	c := messages.Candidate{ID: idOf(id), Seq: seqOf(id), Priority: messages.PriorityNormal, Session: a["s"],
		Affinity: messages.Affinity(a["mode"]), TakeBacks: a.num("taken"), Attempt: messages.Attempt(a.num("attempt"))}
	if a.has("p") {
		c.Priority = messages.Priority(a.num("p"))
	}
	if a.has("avoid") {
		c.Avoid = messages.WorkerID("n/p/" + a["avoid"])
	}
	if a.has("wait") {
		c.WaitForWorker, c.WorkerDeadline = true, a.at("wait")
	}
	return c
}
