package main

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/debug"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/differences"
	"github.com/troupe-run/troupe/rules/timeline"
	"github.com/troupe-run/troupe/store"
)

// hostile would set the window's title, colour what follows, turn the writing direction, and pass for a line of ours.
const hostile = "x\x1b]0;pwned\x07\u009b31m\x7f\u202e\u2028\r\ntroupe: forged"

// hostileAnswer is an answer of the type in which every text is hostile.
func hostileAnswer[T any](t *testing.T, change ...func(*T)) string {
	t.Helper()
	var v T
	poison(reflect.ValueOf(&v).Elem(), 6)
	for _, c := range change {
		c(&v)
	}
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// poison fills every text below v, down to some levels; lists and maps get one entry.
func poison(v reflect.Value, levels int) {
	if levels == 0 || !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(hostile)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		poison(v.Elem(), levels-1)
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			text, _ := json.Marshal(map[string]string{hostile: hostile}) // texts can be encoded
			v.SetBytes(text)
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		poison(v.Index(0), levels-1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		poison(key, levels-1)
		poison(value, levels-1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if !strings.Contains(v.Type().Field(i).Name, "Next") { // there is no further page
				poison(v.Field(i), levels-1)
			}
		}
	}
}

// ours are the sequences that the command line itself sends to a terminal: colours, and a line taken away.
var ours = regexp.MustCompile("\x1b\\[[0-9;]*m|\r\x1b\\[K")

// TestNobodySteersTheTerminal calls the verbs on a terminal with answers that are hostile in every text.
func TestNobodySteersTheTerminal(t *testing.T) {
	t.Parallel()
	const one, debugging = "/api/v1/executions/" + id1, "/debug/actors"
	ended := hostileAnswer(t, func(v *form.ExecutionView) { v.Status, v.RetriedAs = messages.Failed, messages.ExecutionID{} })
	actors := hostileAnswer[debug.Tree](t)
	s := serve(t, map[string]string{
		"GET " + one: ended, "GET " + one + "/events": hostileAnswer[api.EventsView](t), "GET " + one + "/chain": hostileAnswer[api.ChainView](t),
		"GET " + one + "/timeline": hostileAnswer[timeline.Timeline](t), "GET /api/v1/journal": hostileAnswer[api.JournalList](t),
		"GET " + one + "/line": hostileAnswer[view.PastLine](t),
		"GET /api/v1/findings": hostileAnswer[api.Findings](t), "GET /api/v1/overview": hostileAnswer[api.Overview](t), "GET /api/v1/errors": hostileAnswer[api.ErrorGroups](t),
		"GET " + one + "/why": hostileAnswer[view.Explanation](t), "GET " + one + "/output": hostileAnswer[api.OutputView](t),
		"GET /api/v1/differences":        hostileAnswer[differences.Differences](t),
		"GET /api/v1/facets":             hostileAnswer[api.Facets](t),
		"GET /api/v1/executions":         hostileAnswer[api.ExecutionList](t),
		"GET /api/v1/workers":            hostileAnswer[api.WorkerList](t),
		"GET /api/v1/workers/a/b/0":      hostileAnswer[api.WorkerDetailView](t),
		"GET /api/v1/workers/a/b/0/runs": hostileAnswer[view.WorkerRuns](t),
		"GET /api/v1/pools":              hostileAnswer[api.PoolList](t),
		"GET /api/v1/pools/p":            hostileAnswer[view.PoolDetail](t),
		"GET /api/v1/nodes":              hostileAnswer[api.NodeList](t),
		"GET /api/v1/sessions":           hostileAnswer[api.SessionList](t),
		"GET /api/v1/actions":            hostileAnswer[api.ActionList](t),
		"GET /api/v1/dead-letters":       hostileAnswer[api.DeadLetterList](t),
		"GET /api/v1/dead-letters/7":     hostileAnswer[store.DeadLetter](t),
		"POST /api/v1/reload":            hostileAnswer[api.ReloadReport](t),
		"GET /readyz":                    hostileAnswer[api.Readiness](t),
		"GET " + debugging:               actors,
		"GET " + debugging + "/troupe":   `{"id":"\u001b]0;pwned\u0007` + "\u009b31m" + `"}`,
		"POST " + one + "/cancel":        `!500{"error":{"code":"x","message":` + quoted(hostile) + `}}`,
		"POST /api/v1/executions":        "!201" + ended,
	})
	for _, args := range [][]string{
		{"get", id1}, {"get", id1, "--events"}, {"get", id1, "--chain"}, {"why", id1}, {"timeline", id1}, {"timeline", id1, "--at", "2030-01-31T08:00:00Z"}, {"history"}, {"findings"}, {"overview"}, {"errors"}, {"differences"}, {"facets"}, {"fleet"}, {"logs", id1}, {"list"}, {"wait", id1},
		{"workers"}, {"worker", "get", "a/b/0"}, {"worker", "runs", "a/b/0"}, {"pools"}, {"pool", "p"}, {"nodes"}, {"sessions"}, {"actions"}, {"tree"}, {"tree", "troupe"},
		{"dead-letters"}, {"dead-letters", "get", "7"}, {"reload"}, {"cancel", id1}, {"submit", "core.echo", "--wait"},
		{"get", id1, "-o", "json"}, {"workers", "-o", "json"}, {"logs", id1, "-o", "json"}, {"tree", "-o", "json"},
		{"__complete", "submit", ""}, {"__complete", "drain", ""}, {"get", id1, hostile}, {hostile},
	} {
		shown := s.onTerminal(t, args...)
		harmlessText(t, shown, args)
		if args[0] != "logs" && args[0] != "submit" && args[0] != "wait" { // they print what a program wrote, line by line
			require.NotRegexp(t, `(?m)^troupe: forged`, shown, "%q", args)
		}
	}
}

// TestTheViewOfTopIsHarmless: it draws by itself on a terminal, what render makes.
func TestTheViewOfTopIsHarmless(t *testing.T) {
	t.Parallel()
	var v topView
	poison(reflect.ValueOf(&v).Elem(), 6)
	harmlessText(t, v.render(80, 24, true), nil)
	v.Ready.Ready = true
	harmlessText(t, v.render(80, 24, true), nil)
}

func harmlessText(t *testing.T, shown string, args []string) {
	t.Helper()
	require.NotEmpty(t, shown, "%q", args)
	for _, r := range ours.ReplaceAllString(shown, "") {
		require.False(t, steers(r) && r != '\n' && r != '\t', "%q: %U in %q", args, r, shown)
	}
}

func quoted(text string) string {
	b, _ := json.Marshal(text) // a text can be encoded
	return string(b)
}

// onTerminal runs the command line on a terminal and returns what it shows.
func (s *answers) onTerminal(t *testing.T, args ...string) string {
	t.Helper()
	var shown bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &shown, err: &shown, environ: []string{"HOME=/h", "TROUPE_SERVER=" + s.URL}, screen: true, terminal: true}
	a.run(t.Context(), args)
	return shown.String()
}

// TestLogsAreRawWhereAsked: into a file or with --raw every byte is as the program wrote it.
func TestLogsAreRawWhereAsked(t *testing.T) {
	t.Parallel()
	const path = "/api/v1/executions/" + id1 + "/output"
	s := serve(t, map[string]string{"GET " + path: `{"stdout":` + quoted("\x1b[31mred\x1b[0m\r\n") + `,"stderr":` + quoted("\x1b[2Jgone") + `}`})
	require.Equal(t, result{0, "\x1b[31mred\x1b[0m\r\n", "\x1b[2Jgone"}, s.call(t, "logs", id1))
	require.Equal(t, "\x1b[31mred\x1b[0m\r\n\x1b[2Jgone", s.onTerminal(t, "logs", id1, "--raw"))
	require.Equal(t, "·[31mred·[0m\n·[2Jgone", s.onTerminal(t, "logs", id1))
	live := serve(t, map[string]string{"GET " + path: `{"kind":"stdout","data":"G1szMQ==","at":"2026-01-02T12:00:00Z"}` + "\n" +
		`{"kind":"chunk","chunk":{"a":"` + "\u009b" + `"},"at":"2026-01-02T12:00:00Z"}` + "\n"})
	require.Equal(t, "·[31"+"{\"a\":\"\\u009b\"}\n", live.onTerminal(t, "logs", "-f", id1))
}

// Who asks for output that nobody has stored is told so, beside what there is of it.
func TestLogsSayThatOutputIsLost(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{"GET /api/v1/executions/" + id1 + "/output": `{"stdout":"","stderr":"","notice":"what it wrote is lost\u001b[2J"}`})
	require.Equal(t, result{0, "", "troupe: what it wrote is lost·[2J\n"}, s.call(t, "logs", id1))
}

func TestACharacterInPartsIsShownWhole(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"aäb€c😀d\r\ne", "\xc2\x9b31m", "\x9b", "€"[:2], "a\r"} {
		var shown bytes.Buffer
		w := &screenText{to: &shown}
		for i := range len(text) {
			n, err := w.Write([]byte{text[i]})
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}
		w.end()
		require.Equal(t, visibleLines(text), shown.String(), "%q", text)
	}
}

func TestTextsAreMadeVisible(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a·b··c·d", visible("a\x1bb\r\nc\u009bd"))
	require.Equal(t, "a·b\n\tc·d", visibleLines("a\x1bb\n\tc\rd"))
	require.Equal(t, "a\n  b\n - c\n\n\td", paragraph("a\nb\n - c\n\n\td"))
	require.Equal(t, `{"ä":"\u009b\u007f\u202e\u001b"}`, string(harmlessJSON([]byte(`{"ä":"`+"\u009b\x7f\u202e"+`\u001b"}`))))
	require.JSONEq(t, quoted(hostile), string(harmlessJSON([]byte(quoted(hostile)))))
}
