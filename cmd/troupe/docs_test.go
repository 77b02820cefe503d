package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/pack"
	"github.com/troupe-run/troupe/rules/bulk"
	"github.com/troupe-run/troupe/rules/roster"
)

const docs = "../../docs"

// rendered compares a page, or writes it with -update.
func rendered(t *testing.T, page, want string) {
	t.Helper()
	path := filepath.Join(docs, page)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
	}
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(have), "run go test ./cmd/troupe -update")
}

// between puts the body between a name's markers in a page.
func between(t *testing.T, page, name, body string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(docs, page))
	require.NoError(t, err)
	return within(t, string(text), name, body)
}

// within puts the body between a name's markers in a text.
func within(t *testing.T, text, name, body string) string {
	t.Helper()
	begin, end := "<!-- "+name+": rendered from the code -->\n", "<!-- "+name+": end -->\n"
	i, j := strings.Index(text, begin), strings.Index(text, end)
	require.True(t, i >= 0 && j > i, "the page has no markers for %s", name)
	return text[:i+len(begin)] + body + text[j:]
}

// The page shows every verb with every flag. After a change: go test ./cmd/troupe -update.
func TestCommandLinePage(t *testing.T) {
	t.Parallel()
	a := &app{}
	root := a.root()
	var b strings.Builder
	b.WriteString("# Command line\n\n`troupe` is one binary: a node, and the verbs that speak to a node over its HTTP API. This page is\n" +
		"rendered from the program.\n\n" +
		"Exit codes: 0 success; 1 the execution, or the verb, failed; 2 the call was wrong; 130 interrupted.\n\n" +
		"Where a verb prints a table, `-o json` prints the API's answer instead. Completion for your shell:\n" +
		"`source <(troupe completion bash)` (or zsh, fish, powershell).\n\n## Flags of every verb\n\n")
	flagTable(&b, root.PersistentFlags())
	for _, group := range root.Groups() {
		fmt.Fprintf(&b, "\n## %s\n", strings.TrimSuffix(group.Title, ":"))
		for _, verb := range root.Commands() {
			if verb.GroupID == group.ID {
				verbPage(&b, verb)
			}
		}
	}
	rendered(t, "cli.md", b.String())
}

// verbPage writes one verb and those below it.
func verbPage(b *strings.Builder, verb *cobra.Command) {
	if verb.Runnable() || verb.HasSubCommands() {
		fmt.Fprintf(b, "\n### %s\n\n%s.\n", verb.CommandPath(), verb.Short)
	}
	if verb.Runnable() {
		fmt.Fprintf(b, "\n```\n%s\n```\n", strings.TrimSuffix(verb.UseLine(), " [flags]"))
	}
	if long := strings.TrimSpace(verb.Long); long != "" {
		fmt.Fprintf(b, "\n%s\n", long)
	}
	if verb.Example != "" {
		fmt.Fprintf(b, "\n```sh\n%s\n```\n", strings.ReplaceAll(strings.TrimPrefix(verb.Example, "  "), "\n  ", "\n"))
	}
	if verb.LocalNonPersistentFlags().HasAvailableFlags() {
		b.WriteString("\n")
		flagTable(b, verb.LocalNonPersistentFlags())
	}
	for _, sub := range verb.Commands() {
		verbPage(b, sub)
	}
}

func flagTable(b *strings.Builder, flags *pflag.FlagSet) {
	b.WriteString("| flag | default | meaning |\n|---|---|---|\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		name := "`--" + f.Name
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		if f.Value.Type() != "bool" {
			name += " " + strings.ToUpper(f.Value.Type())
		}
		standard := ""
		switch f.DefValue {
		case "", "[]", "false", "0s":
		default:
			standard = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(b, "| %s` | %s | %s |\n", name, standard, strings.ReplaceAll(f.Usage, "|", "\\|"))
	})
}

// The page names every reason that the router can give, and every code with which Troupe ends an execution, with what to do about it.
func TestTroubleshootingPageHasEveryReasonAndCode(t *testing.T) {
	t.Parallel()
	below := func(advice string) string { return strings.ReplaceAll(advice, "in docs/troubleshooting.md", "below") }
	var reasons, codes strings.Builder
	reasons.WriteString("| reason | meaning | what to do |\n|---|---|---|\n")
	for _, r := range roster.Reasons() {
		require.NotEmpty(t, r.Advice(), "reason %s has no advice", r)
		fmt.Fprintf(&reasons, "| `%s` | %s | %s |\n", r, r.Sentence(), below(r.Advice()))
	}
	codes.WriteString("| code | meaning | what to do |\n|---|---|---|\n")
	for _, f := range messages.Failures() {
		fmt.Fprintf(&codes, "| `%s` | %s | %s |\n", f.Code, f.Meaning, below(f.Do))
	}
	page := between(t, "troubleshooting.md", "reasons", reasons.String())
	rendered(t, "troubleshooting.md", within(t, page, "codes", codes.String()))
}

// The page says what each kind of dead letter means.
func TestTroubleshootingPageHasEveryDeadLetter(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("| reason | resolution | meaning | what to do |\n|---|---|---|---|\n")
	cell := func(text string) string {
		if text == "" {
			return "any other"
		}
		return "`" + text + "`"
	}
	for _, c := range bulk.LetterCases() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", cell(c.Reason), cell(c.Resolution), c.Means, c.WhatToDo)
	}
	rendered(t, "troubleshooting.md", between(t, "troubleshooting.md", "letters", b.String()))
}

// description is what the page shows of the OpenAPI document.
type description struct {
	Paths map[string]map[string]struct {
		Summary     string   `json:"summary"`
		Tags        []string `json:"tags"`
		Description string   `json:"description"`
		Parameters  []struct {
			Name, In, Description string
		} `json:"parameters"`
		Responses map[string]any `json:"responses"`
	} `json:"paths"`
}

// served is the API's own description.
func served(t *testing.T) []byte {
	w := httptest.NewRecorder()
	api.New(api.Config{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/openapi.json", nil))
	require.Equal(t, http.StatusOK, w.Code)
	return w.Body.Bytes()
}

// A client is generated from the file without a node, and the console's types are compared with it.
func TestTheDescriptionIsAFile(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	require.NoError(t, json.Indent(&b, served(t), "", " "))
	rendered(t, "openapi.json", b.String()+"\n")
}

// The page lists every route of the API's own description.
func TestAPIPageHasEveryRoute(t *testing.T) {
	t.Parallel()
	var d description
	require.NoError(t, json.Unmarshal(served(t), &d))
	var lines []string
	for path, methods := range d.Paths {
		for method, op := range methods {
			scope := strings.TrimSuffix(strings.TrimPrefix(op.Description, "Scope: "), ".")
			var query []string
			for _, p := range op.Parameters {
				if p.In == "query" {
					query = append(query, "`"+p.Name+"`")
				}
			}
			lines = append(lines, fmt.Sprintf("| `%s` | `%s` | %s | %s | %s |", path, strings.ToUpper(method), scope, strings.Join(query, " "), op.Summary))
		}
	}
	sort.Strings(lines)
	body := "| path | method | scope | query | |\n|---|---|---|---|---|\n" + strings.Join(lines, "\n") + "\n"
	rendered(t, "api.md", between(t, "api.md", "routes", body))
}

// TestAPIPageHasEverySkip checks that the page names every reason for which an operation leaves an execution. It is not parallel, because
// another test writes the same page.
func TestAPIPageHasEverySkip(t *testing.T) {
	var b strings.Builder
	b.WriteString("| `why` | meaning |\n|---|---|\n")
	for _, w := range bulk.Whys() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", w[0], w[1])
	}
	rendered(t, "api.md", between(t, "api.md", "skips", b.String()))
}

// everyKey is a pack with one unknown key in every mapping, so that its problems list the keys that there are.
const (
	everyKeyPack = "name: keys\nversion: \"1\"\nx: 1\ndefaults: {x: 1, retry: {x: 1}}\npools:\n" +
		"  - {name: a, runtime: python, x: 1, limits: {x: 1}, recycle: {x: 1}, health: {x: 1}}\n"
	everyKeyAction = "name: act\nruntime: python\nentrypoint: a.py\nx: 1\n"
)

var (
	knownKeys = regexp.MustCompile(`unknown key ([a-z.]*)x: the keys are ([a-z_, ]+)`)
	markdown  = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
)

// The page explains every key of pack.yaml, of its pools and of actions.
func TestPacksPageHasEveryKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "actions"), 0o755))
	for name, text := range map[string]string{"pack.yaml": everyKeyPack, "actions/act.yaml": everyKeyAction, "a.py": ""} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	_, err := pack.Load([]string{dir}, pack.Options{})
	require.Error(t, err)
	page, readErr := os.ReadFile(filepath.Join(docs, "packs.md"))
	require.NoError(t, readErr)
	found := knownKeys.FindAllStringSubmatch(err.Error(), -1)
	require.Len(t, found, 8, err.Error())
	for _, m := range found {
		for _, key := range strings.Split(strings.TrimSpace(m[2]), ", ") {
			if m[1] == "limits." || m[1] == "recycle." || m[1] == "health." {
				key = m[1] + key
			}
			require.True(t, strings.Contains(string(page), "`"+key+"`"), "docs/packs.md does not explain %s, a key of %q", key, m[1])
		}
	}
}

// A link from one page to another leads somewhere.
func TestPagesLinkToWhatIsThere(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(docs, "*.md"))
	require.NoError(t, err)
	pages = append(pages, "../../README.md", "../../CHANGELOG.md")
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, link := range markdown.FindAllStringSubmatch(string(text), -1) {
			require.FileExists(t, filepath.Join(filepath.Dir(page), link[1]), "%s links to it", page)
		}
	}
}
