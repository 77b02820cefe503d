package e2e

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestRunsWaitForFileDescriptors leaves a node no file descriptors to start programs with. Its runs are given back and wait.
// Readiness and the metrics show the shortage. When there are descriptors again, all runs complete.
func TestRunsWaitForFileDescriptors(t *testing.T) {
	t.Parallel()
	n := start(t, options{})
	n.works(t)
	require.Equal(t, "completed", n.runs(t, "core.shell_echo", object{"i": 0}).text("status"))
	n.client.Transport = n.dialed(t) // the node has no descriptor to accept another connection
	var was unix.Rlimit
	require.NoError(t, unix.Prlimit(n.cmd.Process.Pid, unix.RLIMIT_NOFILE, nil, &was))
	require.NoError(t, unix.Prlimit(n.cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: was.Max}, nil))
	var ids []string
	for i := range 8 {
		ids = append(ids, n.submit(t, "core.shell_echo", object{"i": i}).text("id"))
	}
	for _, id := range ids {
		for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
			e := n.get(t, "/api/v1/executions/"+id)
			require.NotContains(t, []string{"failed", "abandoned", "completed"}, e.text("status"), "%v", e)
			if attempt, _ := e["attempt"].(float64); attempt >= 2 { // given back, and tried again
				break
			}
			require.True(t, time.Now().Before(deadline), "%v", e)
		}
	}
	_, text := n.raw(t, "GET", "/readyz", nil)
	require.Contains(t, string(text), "too many open files")
	_, text = n.raw(t, "GET", "/metrics", nil)
	require.Regexp(t, `troupe_worker_start_shortages_total\{pool="[^"]+"\} [1-9]`, string(text))
	n.logged(t, "program not started for a lack of the node")
	require.NoError(t, unix.Prlimit(n.cmd.Process.Pid, unix.RLIMIT_NOFILE, &was, nil))
	for _, id := range ids {
		e := n.finish(t, id)
		require.Equal(t, "completed", e.text("status"), "%v", e)
	}
	n.works(t)
}

// oneConnection makes all calls over one connection. The standard transport may open another.
type oneConnection struct {
	net.Conn
	answers *bufio.Reader
}

// dialed is a connection that the node has accepted.
func (n *node) dialed(t *testing.T) oneConnection {
	t.Helper()
	at, err := url.Parse(n.url)
	require.NoError(t, err)
	conn, err := net.DialTimeout("tcp", at.Host, patience)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	c := oneConnection{Conn: conn, answers: bufio.NewReader(conn)}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.url+"/readyz", nil)
	require.NoError(t, err)
	res, err := c.RoundTrip(req)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, res.Body) // the next answer follows on the same connection
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return c
}

// RoundTrip makes one call. The previous answer must have been read to its end.
func (c oneConnection) RoundTrip(req *http.Request) (*http.Response, error) {
	if until, ok := req.Context().Deadline(); ok {
		if err := c.SetDeadline(until); err != nil {
			return nil, err
		}
	}
	if err := req.Write(c); err != nil {
		return nil, err
	}
	return http.ReadResponse(c.answers, req)
}
