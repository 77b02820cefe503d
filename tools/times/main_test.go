package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func replay(t *testing.T, reasons map[string]string, lines ...string) (text string, r *report, unexplained bool) {
	t.Helper()
	var out bytes.Buffer
	r = newReport(&out)
	if err := r.read(strings.NewReader(strings.Join(lines, "\n") + "\n")); err != nil {
		t.Fatal(err)
	}
	unexplained = r.slowest(2, 20*time.Second, func(pkg string) string { return reasons[short(pkg)] })
	return out.String(), r, unexplained
}

func TestAPassingPackageShowsItsLineAlone(t *testing.T) {
	text, r, unexplained := replay(t, nil,
		`{"Action":"run","Package":"m/a","Test":"TestA"}`,
		`{"Action":"output","Package":"m/a","Test":"TestA","Output":"=== RUN   TestA\n"}`,
		`{"Action":"output","Package":"m/a","Test":"TestA","Output":"    a_test.go:1: chatter\n"}`,
		`{"Action":"pass","Package":"m/a","Test":"TestA","Elapsed":1.5}`,
		`{"Action":"output","Package":"m/a","Output":"PASS\n"}`,
		`{"Action":"output","Package":"m/a","Output":"ok  \tm/a\t1.6s\n"}`,
		`{"Action":"pass","Package":"m/a","Elapsed":1.6}`)
	if first, _, _ := strings.Cut(text, "\n"); first != "ok  \tm/a\t1.6s" {
		t.Errorf("the first line is %q", first)
	}
	if strings.Contains(text, "chatter") || r.failed || unexplained {
		t.Error(text)
	}
	if !strings.Contains(text, "1.5  m/a TestA") {
		t.Error(text)
	}
}

func TestAFailureShowsWhatItsTestWrote(t *testing.T) {
	text, r, _ := replay(t, nil,
		`{"Action":"run","Package":"m/a","Test":"TestA"}`,
		`{"Action":"output","Package":"m/a","Test":"TestA","Output":"    a_test.go:1: want 1\n"}`,
		`{"Action":"output","Package":"m/a","Test":"TestA","Output":"--- FAIL: TestA (0.00s)\n"}`,
		`{"Action":"fail","Package":"m/a","Test":"TestA","Elapsed":0}`,
		`{"Action":"output","Package":"m/a","Output":"FAIL\tm/a\t0.1s\n"}`,
		`{"Action":"fail","Package":"m/a","Elapsed":0.1}`)
	for _, want := range []string{"want 1", "--- FAIL: TestA", "FAIL\tm/a\t0.1s"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in %s", want, text)
		}
	}
	if !r.failed {
		t.Error("no failure is reported")
	}
}

func TestTheEndSaysWhatFailed(t *testing.T) {
	lines := []string{
		`{"Action":"output","Package":"m/a","Test":"TestA","Output":"        2026-11-27T00:00:14.179Z [DEBUG] TestA.worker: chatter\n"}`,
		`{"Action":"output","Package":"m/a","Test":"TestA","Output":"    a_test.go:1: zzz\n"}`,
		`{"Action":"output","Package":"m/a","Test":"TestA","Output":"--- FAIL: TestA (0.00s)\n"}`,
		`{"Action":"fail","Package":"m/a","Test":"TestA","Elapsed":0}`,
		`{"Action":"output","Package":"m/a","Test":"TestB","Output":"    fine\n"}`,
		`{"Action":"pass","Package":"m/a","Test":"TestB","Elapsed":0}`,
		`{"Action":"output","Package":"m/a","Test":"TestC","Output":"panic: down\n"}`,
		`{"Action":"fail","Package":"m/a","Elapsed":1}`,
	}
	_, r, _ := replay(t, nil, lines...)
	var end bytes.Buffer
	r.out = &end
	r.again()
	if want := "\nfailed: m/a TestA\n    a_test.go:1: zzz\n\nfailed: m/a TestC\npanic: down\n"; end.String() != want {
		t.Errorf("the end is %q, want %q", end.String(), want)
	}
}

func TestTheEndIsBounded(t *testing.T) {
	_, r, _ := replay(t, nil)
	for range failuresMax + 1 {
		key := timed{pkg: "m/a", test: "TestA"}
		r.held[key] = slices.Repeat([]string{"a line\n"}, linesMax+1)
		r.keep(key)
	}
	var end bytes.Buffer
	r.out = &end
	r.again()
	if got := strings.Count(end.String(), "a line"); got != failuresMax*linesMax {
		t.Errorf("%d lines", got)
	}
}

func TestWhatBroughtAPackageDownIsShown(t *testing.T) {
	text, r, _ := replay(t, nil,
		`{"Action":"run","Package":"m/a","Test":"TestA"}`,
		`{"Action":"output","Package":"m/a","Test":"TestA","Output":"panic: test timed out after 1s\n"}`,
		`{"Action":"fail","Package":"m/a","Elapsed":1}`)
	if !strings.Contains(text, "panic: test timed out") || !r.failed {
		t.Error(text)
	}
}

func TestWhatDoesNotCompileIsShown(t *testing.T) {
	text, r, _ := replay(t, nil,
		`{"ImportPath":"m/a","Action":"build-output","Output":"a.go:1: syntax error\n"}`,
		`{"ImportPath":"m/a","Action":"build-fail"}`,
		"go: words of the go command")
	if !strings.Contains(text, "syntax error") || !strings.Contains(text, "words of the go command") || !r.failed {
		t.Error(text)
	}
}

func TestASlowPackageNeedsAReason(t *testing.T) {
	lines := []string{`{"Action":"pass","Package":"m/a","Elapsed":21}`, `{"Action":"pass","Package":"m/b","Elapsed":20}`}
	text, _, unexplained := replay(t, nil, lines...)
	if !unexplained || !strings.Contains(text, `"Its tests take long:": m/a`) {
		t.Error(text)
	}
	text, _, unexplained = replay(t, map[string]string{"m/a": "they start servers"}, lines...)
	if unexplained || !strings.Contains(text, "they start servers") {
		t.Error(text)
	}
}

func TestTheReasonIsASentenceOfTheDoc(t *testing.T) {
	root := t.TempDir()
	doc := "// Package a does a thing. Its tests take long: each starts\n// a server. More follows.\npackage a\n"
	if err := os.MkdirAll(filepath.Join(root, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "a", "doc.go"), []byte(doc), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := reasonOf(root, module+"/a"); got != "each starts a server" {
		t.Errorf("the reason is %q", got)
	}
	if got := reasonOf(root, module+"/b"); got != "" {
		t.Errorf("the reason of a package that is not there is %q", got)
	}
}

func TestWhatRanAtAnotherTimeIsNotListed(t *testing.T) {
	text, _, unexplained := replay(t, nil,
		`{"Action":"run","Package":"m/a","Test":"TestA"}`,
		`{"Action":"pass","Package":"m/a","Test":"TestA","Elapsed":30}`,
		`{"Action":"output","Package":"m/a","Output":"ok  \tm/a\t(cached)\n"}`,
		`{"Action":"pass","Package":"m/a","Elapsed":30}`)
	if unexplained || strings.Contains(text, "30.0") {
		t.Error(text)
	}
}
