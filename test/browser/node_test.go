package browser

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience bounds every wait of these tests. On an idle machine everything is much faster.
const patience = time.Minute

// node is one running troupe on an embedded store.
type node struct {
	url, dir, token string
	name, program   string // empty: n1, and the binary under test
	args, env       []string
	cmd             *exec.Cmd
	done            chan struct{}
}

// stage is the node that tests share.
var stage struct {
	once sync.Once
	node *node
	err  error
}

// shared returns the node that tests share. A test does not stop it.
func shared(t *testing.T) *node {
	t.Helper()
	stage.once.Do(func() { stage.node, stage.err = launch(filepath.Join(scratch, "shared"), "--listen", "127.0.0.1:0") })
	require.NoError(t, stage.err)
	return stage.node
}

// start starts a node for one test.
func start(t *testing.T, args ...string) *node {
	t.Helper()
	n, err := launch(t.TempDir(), append([]string{"--listen", "127.0.0.1:0"}, args...)...)
	require.NoError(t, err)
	t.Cleanup(n.kill)
	return n
}

func launch(dir string, args ...string) (*node, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	n := &node{dir: dir, args: args}
	return n, n.begin()
}

func (n *node) nodeName() string { return cmp.Or(n.name, "n1") }

// begin starts the node's process, also a second time, and waits until it is ready.
func (n *node) begin() error {
	out, err := os.Create(filepath.Join(n.dir, "log"))
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	n.cmd = exec.Command(cmp.Or(n.program, binary), append([]string{"node", "--name", n.nodeName(), "--log-format", "json", "--data", filepath.Join(n.dir, "data")}, n.args...)...)
	n.cmd.Env = append(os.Environ(), "HOME="+n.dir)
	n.cmd.Env = append(n.cmd.Env, n.env...)
	n.cmd.Stdout, n.cmd.Stderr = out, out
	if err := n.cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	n.done = done
	go func() {
		_ = n.cmd.Wait()
		close(done)
	}()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		select {
		case <-n.done:
			return fmt.Errorf("the node ended:\n%s", n.log())
		case <-time.After(20 * time.Millisecond):
		}
		if n.listens() && n.ready() {
			return nil
		}
	}
	n.kill()
	return errors.New("the node is not ready:\n" + n.log())
}

func (n *node) log() string {
	text, _ := os.ReadFile(filepath.Join(n.dir, "log"))
	return string(text)
}

func (n *node) listens() bool {
	for line := range strings.Lines(n.log()) {
		var entry struct {
			Message string `json:"@message"`
			Listen  string `json:"listen"`
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Message == "node started" {
			n.url = "http://" + entry.Listen
			return true
		}
	}
	return false
}

func (n *node) ready() bool {
	answer, err := http.Get(n.url + "/readyz")
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// kill ends the node at once.
func (n *node) kill() {
	_ = n.cmd.Process.Kill()
	<-n.done
}

// ask calls the node's API, and decodes the answer into a new T.
func ask[T any](t *testing.T, n *node, method, path string, body any) T {
	t.Helper()
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		require.NoError(t, err)
		reader = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, n.url+path, reader)
	require.NoError(t, err)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if n.token != "" {
		r.Header.Set("Authorization", "Bearer "+n.token)
	}
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Less(t, answer.StatusCode, 300, "%s %s: %s", method, path, text)
	var v T
	require.NoError(t, json.Unmarshal(text, &v), "%s", text)
	return v
}

// execution is what these tests read of one.
type execution struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Worker string `json:"worker"`
}

// submit submits an execution; with wait_seconds in more, it waits for its end.
func submit(t *testing.T, n *node, action string, parameters, more map[string]any) execution {
	t.Helper()
	body := map[string]any{"action_ref": action, "parameters": parameters}
	for k, v := range more {
		body[k] = v
	}
	return ask[execution](t, n, http.MethodPost, "/api/v1/executions", body)
}
