package api

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
)

// slowStore takes what is submitted once it is told to.
type slowStore struct {
	*backend
	came, goOn chan struct{}
}

func (s *slowStore) Submit(context.Context, []submit.Request) ([]store.Submitted, error) {
	s.came <- struct{}{}
	<-s.goOn
	return []store.Submitted{{Execution: messages.Execution{ID: messages.NewExecutionID(), Status: messages.Requested}}}, nil
}

// postLarge sends 8 MiB to a path, and looks at the answer only after the last byte.
func postLarge(t *testing.T, address, path, headers string) *http.Response {
	t.Helper()
	const size = 8 << 20
	conn := dial(t, address, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n", path, headers, size))
	block := bytes.Repeat([]byte(" "), 64<<10)
	for range size / len(block) {
		_, err := conn.Write(block)
		require.NoError(t, err, "the connection is closed while the caller writes")
	}
	return answerOf(t, conn)
}

const asJSON = "Content-Type: application/json\r\n"

// The attack on good callers: a batch was refused before its body was read, the server closed the connection while the
// caller wrote, and the caller saw a broken pipe instead of when to try again.
func TestALargeBatchSeesThatThereIsNoPlace(t *testing.T) {
	t.Parallel()
	b := &slowStore{backend: newBackend(t), came: make(chan struct{}), goOn: make(chan struct{})}
	address := serveBounded(t, Config{Backend: b, BatchesMax: 1}, Connections{}, nil)
	batch := `{"executions":[{"action_ref":"a"}]}`
	first := dial(t, address, fmt.Sprintf("POST %s/batch HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n%s", executionsPath, asJSON, len(batch), batch))
	<-b.came
	refused := postLarge(t, address, executionsPath+"/batch", asJSON)
	require.Equal(t, http.StatusTooManyRequests, refused.StatusCode)
	require.Equal(t, "1", refused.Header.Get("Retry-After"))
	close(b.goOn)
	require.Equal(t, http.StatusCreated, answerOf(t, first).StatusCode)
}

// The same for whatever else is refused before the body is read.
func TestALargeBodySeesItsRefusal(t *testing.T) {
	t.Parallel()
	shut := func() *messages.Problem {
		return messages.Problemf(messages.CodeStoreUnavailable, "the store is away")
	}
	tokens := withTokens(t, []Token{{Name: "viewer", Secret: readToken, Scopes: []Scope{ScopeRead}}})
	for name, c := range map[string]struct {
		cfg           Config
		path, headers string
		status        int
	}{
		"gate":       {Config{Gate: shut}, "/batch", asJSON, http.StatusServiceUnavailable},
		"scope":      {Config{Access: tokens}, "/batch", asJSON + "Authorization: Bearer " + readToken + "\r\n", http.StatusForbidden},
		"query":      {Config{}, "/batch?odd=1", asJSON, http.StatusBadRequest},
		"media type": {Config{}, "/batch", "Content-Type: text/plain\r\n", http.StatusUnsupportedMediaType},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.cfg.Backend = newBackend(t)
			refused := postLarge(t, serveBounded(t, c.cfg, Connections{}, nil), executionsPath+c.path, c.headers)
			require.Equal(t, c.status, refused.StatusCode)
			if c.status == http.StatusServiceUnavailable {
				require.Equal(t, "1", refused.Header.Get("Retry-After"))
			}
		})
	}
}

// counted counts what is read of a body.
type counted struct {
	from io.Reader
	read int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.read += int64(n)
	return n, err
}

type blanks struct{}

func (blanks) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte(" "), len(p))), nil }

// A body without end is thrown away up to a bound; of a caller whom the node does not know nothing is read, and nothing where the
// caller waits to be asked for it.
func TestWhoseBodyIsThrownAway(t *testing.T) {
	t.Parallel()
	h, _ := guarded(t)
	for name, c := range map[string]struct {
		handler             http.Handler
		from, token, expect string
		status              int
		want                int64
	}{
		"no scope":       {h, "192.0.2.1:1", readToken, "", http.StatusForbidden, BatchBodyMax},
		"no token":       {h, "192.0.2.1:1", "", "", http.StatusUnauthorized, 0},
		"wrong token":    {h, "192.0.2.1:1", "wrong-token-0123456789", "", http.StatusUnauthorized, 0},
		"another host":   {New(Config{Backend: newBackend(t)}), "192.0.2.1:1", "", "", http.StatusForbidden, 0},
		"not yet wanted": {h, "192.0.2.1:1", readToken, "100-continue", http.StatusForbidden, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := &counted{from: blanks{}}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, executionsPath+"/batch", body)
			r.RemoteAddr, r.ContentLength = c.from, -1
			r.Header.Set("Authorization", "Bearer "+c.token)
			r.Header.Set("Expect", c.expect)
			w := httptest.NewRecorder()
			c.handler.ServeHTTP(w, r)
			require.Equal(t, c.status, w.Code)
			require.Equal(t, c.want, body.read)
		})
	}
}

// Who asks before it sends is told without sending.
func TestARefusalBeforeTheBodyIsAskedFor(t *testing.T) {
	t.Parallel()
	address := serveBounded(t, Config{Backend: newBackend(t)}, Connections{}, nil)
	for _, c := range []struct {
		headers string
		size    int64
		status  int
	}{
		{"", 1 << 20, http.StatusUnsupportedMediaType},
		{asJSON, BatchBodyMax + 1, http.StatusRequestEntityTooLarge},
	} {
		conn := dial(t, address, fmt.Sprintf("POST %s/batch HTTP/1.1\r\nHost: localhost\r\n%sExpect: 100-continue\r\nContent-Length: %d\r\n\r\n",
			executionsPath, c.headers, c.size))
		require.Equal(t, c.status, answerOf(t, conn).StatusCode)
	}
}

// A batch that waits for room stops once its caller has left, or the node stops, and another one may wait.
func TestAWaitForRoomEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{bodies: bodies{max: 64 << 10}}
		left := make(chan struct{})
		first, second := s.holding(true, left), s.holding(true, nil)
		other := s.holding(false, nil)
		require.NoError(t, other.add(40<<10))
		waited := make(chan error, 2)
		go func() { waited <- first.add(20 << 10) }()
		synctest.Wait()
		require.Error(t, second.add(20<<10), "another one waits")
		close(left)
		synctest.Wait()
		require.Len(t, waited, 1, "no clock has moved")
		var p *messages.Problem
		require.ErrorAs(t, <-waited, &p)
		require.Equal(t, http.StatusServiceUnavailable, StatusOf(p))
		first.release()
		second.release()
		go func() { waited <- second.add(20 << 10) }()
		synctest.Wait()
		require.Empty(t, waited, "it may wait now")
		other.release()
		require.NoError(t, <-waited)
		second.release()
	})
}
