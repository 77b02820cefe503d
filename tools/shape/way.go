package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	repeats = 100 // executions, one after the other
	startup = time.Minute
)

// actions are one of each runtime that comes with the program: in the node's own process, a program for each execution, and a
// process that lives on.
var actions = []string{"core.echo", "core.shell_echo", "demo.counter"}

// way is what one execution of an action crosses in a node on its embedded store, from the request to its answer.
type way struct {
	action string
	files  []string
	// receives counts, for each type with a method Receive, how often that ran for one execution.
	receives map[string]float64
}

// crossed runs executions of each action on a node that counts what it runs, and nothing on another one. What ran at least once
// more for each execution is on its way.
func crossed(ctx context.Context, root string) ([]way, error) {
	dir, err := os.MkdirTemp("", "shape-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "troupe")
	build := exec.CommandContext(ctx, "go", "build", "-cover", "-covermode=atomic", "-coverpkg=./...", "-o", binary, "./cmd/troupe")
	build.Dir, build.Stderr = root, os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("build a troupe that counts: %w", err)
	}
	h, err := read(root)
	if err != nil {
		return nil, err
	}
	idle, err := counted(ctx, binary, filepath.Join(dir, "idle"), "")
	if err != nil {
		return nil, fmt.Errorf("run an idle node: %w", err)
	}
	var ways []way
	for _, action := range actions {
		busy, err := counted(ctx, binary, filepath.Join(dir, action), action)
		if err != nil {
			return nil, fmt.Errorf("run %s: %w", action, err)
		}
		ways = append(ways, h.way(action, busy, idle))
	}
	return ways, nil
}

// counted runs a node until it has done its executions, and returns how often each block of its code ran.
func counted(ctx context.Context, binary, dir, action string) (map[block]int, error) {
	counts := filepath.Join(dir, "counts")
	if err := os.MkdirAll(counts, 0o755); err != nil {
		return nil, err
	}
	n := &node{lines: make(chan string, 1)}
	cmd := exec.CommandContext(ctx, binary, "node", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data"))
	cmd.Env = append(os.Environ(), "GOCOVERDIR="+counts, "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = n
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	err := n.work(ctx, action)
	err = errors.Join(err, cmd.Process.Signal(syscall.SIGTERM))
	if err = errors.Join(err, cmd.Wait()); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, n.text())
	}
	return profile(ctx, counts)
}

// node reads what a node logs, and asks it.
type node struct {
	mu    sync.Mutex
	log   bytes.Buffer
	lines chan string // the address, once it is known
}

func (n *node) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log.Write(p)
	for line := range strings.Lines(n.log.String()) {
		var said struct {
			Message string `json:"@message"`
			Listen  string `json:"listen"`
		}
		if json.Unmarshal([]byte(line), &said) == nil && said.Message == "node started" {
			select {
			case n.lines <- said.Listen:
			default: // told already
			}
		}
	}
	return len(p), nil
}

func (n *node) text() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.log.String()
}

// work runs the action so many times; without one it only waits until the node is ready.
func (n *node) work(ctx context.Context, action string) error {
	ctx, stop := context.WithTimeout(ctx, 2*startup)
	defer stop()
	var url string
	select {
	case address := <-n.lines:
		url = "http://" + address
	case <-time.After(startup):
		return errors.New("the node does not start")
	}
	for ask(ctx, "GET", url+"/readyz", nil, nil) != nil {
		if ctx.Err() != nil {
			return errors.New("the node is not ready")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if action == "" {
		return nil
	}
	for range repeats {
		var e struct{ ID, Status string }
		if err := ask(ctx, "POST", url+"/api/v1/executions", map[string]any{"action_ref": action, "parameters": map[string]any{}}, &e); err != nil {
			return err
		}
		if err := ask(ctx, "GET", url+"/api/v1/executions/"+e.ID+"/wait?timeout_seconds=30", nil, &e); err != nil {
			return err
		}
		if e.Status != "completed" {
			return fmt.Errorf("execution %s of %s is %s", e.ID, action, e.Status)
		}
	}
	return nil
}

func ask(ctx context.Context, method, url string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err = io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, url, response.Status, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// block is a piece of code that runs as a whole.
type block struct {
	path       string // of the file, as the compiler names it
	first, col int    // where it begins
}

// profile reads what the processes of a node counted.
func profile(ctx context.Context, counts string) (map[block]int, error) {
	text := filepath.Join(counts, "profile")
	out, err := exec.CommandContext(ctx, "go", "tool", "covdata", "textfmt", "-i="+counts, "-o="+text).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("read the counts: %w: %s", err, out)
	}
	all, err := os.ReadFile(text)
	if err != nil {
		return nil, err
	}
	ran := map[block]int{}
	for line := range strings.Lines(string(all)) {
		var b block
		var last, lastCol, statements, count int
		at := strings.LastIndex(line, ".go:")
		if at < 0 {
			continue // the mode
		}
		b.path = line[:at+len(".go")]
		if _, err := fmt.Sscanf(line[at+len(".go:"):], "%d.%d,%d.%d %d %d", &b.first, &b.col, &last, &lastCol, &statements, &count); err != nil {
			return nil, fmt.Errorf("read %q: %w", line, err)
		}
		ran[b] += count
	}
	return ran, nil
}

func (h *house) way(action string, busy, idle map[block]int) way {
	w := way{action: action, receives: map[string]float64{}}
	known := map[string]*file{}
	for i := range h.files {
		known[h.module+"/"+h.files[i].path] = &h.files[i]
	}
	files := map[string]bool{}
	for b, count := range busy {
		f := known[b.path]
		if f == nil || count-idle[b] < repeats {
			continue
		}
		files[f.path] = true
		for _, r := range f.receives {
			if r.first == b.first && r.col == b.col {
				w.receives[r.name] = float64(count-idle[b]) / repeats
			}
		}
	}
	w.files = slices.Sorted(maps.Keys(files))
	return w
}

func wayRows(ways []way) []row {
	var rows []row
	for _, w := range ways {
		folders := map[string]bool{}
		for _, f := range w.files {
			folders[filepath.Dir(f)] = true
		}
		var receives []string
		for _, name := range slices.SortedFunc(maps.Keys(w.receives), func(a, b string) int { return int(10 * (w.receives[b] - w.receives[a])) }) {
			receives = append(receives, fmt.Sprintf("`%s` %.1f", name, w.receives[name]))
		}
		rows = append(rows,
			row{fmt.Sprintf("`%s` on a node: files (packages)", w.action), fmt.Sprintf("%d (%d): %s", len(w.files), len(folders), byFolder(w.files))},
			row{fmt.Sprintf("`%s`: messages that actors receive for one", w.action), strings.Join(receives, ", ")})
	}
	return rows
}
