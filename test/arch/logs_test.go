package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// unknown stands in a message for what is known only when it is written. It is no character of any message.
const unknown = "\x00"

// logged is one message that the program writes.
type logged struct{ level, text string }

// TestTheTableOfLogsIsWhatTheProgramWrites reads docs/operations.md and the source: an operator who searches the log for a
// text of the table finds it there, at its level.
func TestTheTableOfLogsIsWhatTheProgramWrites(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	require.NoError(t, err)
	told := tableOfLogs(string(page))
	require.Greater(t, len(told), 50)
	written := logsIn(t, root)
	var wrong []logged
	for _, m := range told {
		if !isWritten(m, written) {
			wrong = append(wrong, m)
		}
	}
	require.Empty(t, wrong, "docs/operations.md, Logs: the program does not write these at their levels; write what it does, with … at the end of a beginning")
}

func TestAMessageIsFoundByItsLevelAndText(t *testing.T) {
	t.Parallel()
	written := logsOf(t, `package p
func f(s string) {
	text := "given up: " + s
	logger.Error(text + "; all is over", "node", 1)
	logger.Warn(s+" is away; nothing is placed")
	bell.Info(logger, "node is up", "node", s)
	warn("not made, trying again", 3)
	logger.Warn(s)
}`)
	for _, c := range []struct {
		level, text string
		want        bool
	}{
		{"error", "given up: …", true}, {"warn", "store is away; …", true}, {"warn", "store is away; nothing is placed", true},
		{"info", "node is up", true}, {"warn", "not made, trying again", true},
		{"warn", "node is up", false}, {"info", "node is", false}, {"warn", "store is away", false}, {"warn", "anything", false},
		{"warn", "anything …", false}, {"error", "taken up: …", false},
	} {
		require.Equal(t, c.want, isWritten(logged{c.level, c.text}, written), c.text)
	}
}

var (
	logRow   = regexp.MustCompile(`(?m)^\| (error|warn|info|debug) \| (.*?) \|`)
	logTexts = regexp.MustCompile("`([^`]+)`")
)

// tableOfLogs is the messages in the section Logs. One that ends in … is the beginning of a message.
func tableOfLogs(page string) []logged {
	_, section, _ := strings.Cut(page, "\n## Logs\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var told []logged
	for _, row := range logRow.FindAllStringSubmatch(section, -1) {
		for _, text := range logTexts.FindAllStringSubmatch(row[2], -1) {
			told = append(told, logged{row[1], text[1]})
		}
	}
	return told
}

func isWritten(m logged, written []logged) bool {
	text, begins := strings.CutSuffix(m.text, "…")
	for _, w := range written {
		if w.level == m.level && fits(w.text, strings.TrimRight(text, " "), begins, 0) {
			return true
		}
	}
	return false
}

// fits says whether the text, or what begins with it, can be written by the pattern. same counts the characters that both
// have: a pattern of unknowns writes anything, and says nothing.
func fits(pattern, text string, begins bool, same int) bool {
	const enough = 5
	if text == "" {
		return same >= enough && (begins || strings.Trim(pattern, unknown) == "")
	}
	if pattern == "" {
		return false
	}
	if pattern[:1] != unknown {
		return pattern[0] == text[0] && fits(pattern[1:], text[1:], begins, same+1)
	}
	for i := range len(text) + 1 {
		if fits(pattern[1:], text[i:], begins, same) {
			return true
		}
	}
	return false
}

// logsIn reads the program's own source, without its tests.
func logsIn(t *testing.T, root string) []logged {
	t.Helper()
	var found []logged
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "test" || name == "tools" || name == "testdata" || name == "node_modules" || strings.HasPrefix(name, ".") && path != root):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".pb.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		if err == nil {
			found = append(found, logsOf(t, string(source))...)
		}
		return err
	})
	require.NoError(t, err)
	return found
}

// logsOf finds calls of methods and functions that are named as a level, and the first text that they are given.
func logsOf(t *testing.T, source string) []logged {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	require.NoError(t, err)
	var found []logged
	for _, declared := range file.Decls {
		texts := textsOf(declared)
		ast.Inspect(declared, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			level := strings.ToLower(nameOf(call.Fun))
			if level != "error" && level != "warn" && level != "info" && level != "debug" {
				return true
			}
			for _, argument := range call.Args {
				if text := textOf(argument, texts); strings.Trim(text, unknown) != "" {
					found = append(found, logged{level, text})
					break
				}
			}
			return true
		})
	}
	return found
}

func nameOf(function ast.Expr) string {
	switch f := function.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// textsOf is what the variables of one function are first set to.
func textsOf(function ast.Node) map[string]string {
	texts := map[string]string{}
	ast.Inspect(function, func(n ast.Node) bool {
		set, ok := n.(*ast.AssignStmt)
		if !ok || set.Tok != token.DEFINE || len(set.Lhs) != len(set.Rhs) {
			return true
		}
		for i, variable := range set.Lhs {
			if id, ok := variable.(*ast.Ident); ok && texts[id.Name] == "" {
				texts[id.Name] = textOf(set.Rhs[i], nil)
			}
		}
		return true
	})
	return texts
}

// textOf is what an expression is as text, with unknown for what only the running program knows.
func textOf(e ast.Expr, variables map[string]string) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return textOf(e.X, variables) + textOf(e.Y, variables)
		}
	case *ast.Ident:
		if text := variables[e.Name]; text != "" {
			return text
		}
	}
	return unknown
}
