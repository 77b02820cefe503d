package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// dial opens a connection to the node and sends text. The connection closes with the test.
func (n *node) dial(t *testing.T, text string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(n.url, "http://"), patience)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	return conn
}

// TestIdleSocketsAreBounded opens more sockets than the node may have files. Each sends one request and stays open. The
// node's shell workers still start processes, and its API answers.
func TestIdleSocketsAreBounded(t *testing.T) {
	t.Parallel()
	n := start(t, options{files: 256})
	for range 400 {
		n.dial(t, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	require.Equal(t, "ok", n.get(t, "/healthz").text("status"))
	for i := range 8 {
		e := n.runs(t, "core.shell_echo", object{"i": i})
		require.Equal(t, "completed", e.text("status"), "%v", e)
	}
	n.works(t)
}

// TestNodeServesBesideStalledRequests keeps requests open in two ways: some send no body, with and without a token, and some
// read no answer.
func TestNodeServesBesideStalledRequests(t *testing.T) {
	t.Parallel()
	n := start(t, options{config: guardedConfig + "limits: {requests: 4, batches: 1}\n", env: []string{"OPS_SECRET=admin-secret-123456"},
		token: "admin-secret-123456"})
	const headers = " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"
	for _, token := range []string{"", "Authorization: Bearer submit-secret-123456\r\n"} {
		for range 20 {
			n.dial(t, "POST /api/v1/executions"+headers+token+"\r\n{")
			n.dial(t, "POST /api/v1/executions/batch"+headers+token+"\r\n{")
		}
	}
	for range 20 {
		conn := n.dial(t, "")
		// Nobody reads the answers, so after some of them the node stops reading requests, and the write ends at its deadline.
		require.NoError(t, conn.SetWriteDeadline(time.Now().Add(20*time.Millisecond)))
		_, _ = io.WriteString(conn, strings.Repeat("GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n", 256))
	}
	require.Equal(t, "ok", n.get(t, "/healthz").text("status"))
	require.Equal(t, http.StatusOK, n.status(t, "/readyz"))
	n.works(t)
	status, _ := n.call(t, "POST", "/api/v1/executions/batch", `{"executions":[{"action_ref":"core.echo"}]}`)
	require.Equal(t, http.StatusCreated, status)
}

func (n *node) status(t *testing.T, path string) int {
	t.Helper()
	status, _ := n.call(t, "GET", path, nil)
	return status
}

// TestConcurrentBatchesAreBounded sends more large batches at once than the bound allows. The node accepts some and answers 429 to
// the others.
func TestConcurrentBatchesAreBounded(t *testing.T) {
	t.Parallel()
	n := start(t, options{config: "limits: {bodies: 8MiB, batches: 1000}\n"})
	batch := `{"executions":[` + strings.TrimSuffix(strings.Repeat(
		fmt.Sprintf(`{"action_ref":"core.echo","parameters":{"text":"%s"},"run_at":"2100-01-01T00:00:00Z"},`, strings.Repeat("x", 8<<10)), 256), ",") + `]}`
	answers := make(chan int, 12)
	for range cap(answers) {
		go func() {
			response, err := http.Post(n.url+"/api/v1/executions/batch", "application/json", strings.NewReader(batch)) //nolint:noctx // of this test's own node
			if err != nil {
				answers <- 0
				return
			}
			_ = response.Body.Close()
			answers <- response.StatusCode
		}()
	}
	taken := 0
	for range cap(answers) {
		status := <-answers
		require.Contains(t, []int{http.StatusCreated, http.StatusTooManyRequests}, status)
		if status == http.StatusCreated {
			taken++
		}
	}
	require.Positive(t, taken)
	n.works(t)
}

// TestLargeBatchesAtOnceFitInMemory sends bodies of 30 MiB at the same time: to a node with the default settings, and to one that
// accepts so many batches that only the bound on the bytes of all bodies applies. All get an answer, and the node stays below 550
// MiB.
func TestLargeBatchesAtOnceFitInMemory(t *testing.T) {
	t.Parallel()
	entry := fmt.Sprintf(`{"action_ref":"core.echo","parameters":{"text":"%s"},"run_at":"2100-01-01T00:00:00Z"},`, strings.Repeat("x", 32<<10))
	few := `{"executions":[` + strings.TrimSuffix(strings.Repeat(entry, 30<<20/len(entry)), ",") + `]}`
	// As many entries as fit, each as small as possible: these need the most memory for their bytes.
	many := `{"executions":[` + strings.TrimSuffix(strings.Repeat(`{},`, 30<<20/3), ",") + `]}`
	for _, c := range []struct {
		name, config string
		times        int
		bodies       []string
	}{
		{"the defaults", "", 8, []string{few, many}},
		{"more batches", "limits: {batches: 1000, bodies: 64MiB}\n", 16, []string{few}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := start(t, options{config: c.config})
			defer n.showPeak(t)
			answers := make(chan int, c.times)
			for i := range cap(answers) {
				body := c.bodies[i%len(c.bodies)]
				go func() {
					response, err := http.Post(n.url+"/api/v1/executions/batch", "application/json", strings.NewReader(body)) //nolint:noctx // of this test's own node
					if err != nil {
						answers <- 0 // the node closed the connection before it had read the body
						return
					}
					_ = response.Body.Close()
					answers <- response.StatusCode
				}()
			}
			for range cap(answers) {
				require.Less(t, <-answers, http.StatusInternalServerError)
			}
			n.works(t)
			peak := n.peakMemory(t)
			require.Greater(t, peak, int64(10<<20), "it was measured")
			require.Less(t, peak, int64(550<<20))
		})
	}
}

// peakMemory is the largest resident size of the node's process so far, in bytes.
func (n *node) peakMemory(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.cmd.Process.Pid))
	require.NoError(t, err)
	_, text, found := strings.Cut(string(status), "VmHWM:")
	require.True(t, found)
	kilobytes, err := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
	require.NoError(t, err)
	return kilobytes << 10
}

// showPeak logs that peak, if the node is alive.
func (n *node) showPeak(t *testing.T) {
	t.Helper()
	if alive(n.cmd.Process.Pid) {
		t.Logf("the node's peak: %d MiB", n.peakMemory(t)>>20)
	}
}

// TestProxiesNeedTokens sends a request with the header of a proxy. A node without tokens refuses it.
func TestProxiesNeedTokens(t *testing.T) {
	t.Parallel()
	n := start(t, options{})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.url+"/api/v1/pools", nil)
	require.NoError(t, err)
	r.Header.Set("X-Forwarded-For", "192.0.2.1")
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusForbidden, response.StatusCode)
	require.Contains(t, string(text), "configure tokens")
}
