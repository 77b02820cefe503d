package rabbitmq

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// Policies that cut one of the queues are named, with what they do; others are not.
func TestPoliciesThatCut(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user != "u" || password != "p/w" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answer := map[string]string{
			"/api/policies/a%2Fb": `[{"name":"short","pattern":"^troupe\\.","apply-to":"queues","definition":{"max-length":100,"overflow":"drop-head"}},
				{"name":"others","pattern":"^other","apply-to":"queues","definition":{"max-length":1}},
				{"name":"mirror","pattern":".*","apply-to":"all","definition":{"ha-mode":"all"}},
				{"name":"exchange","pattern":".*","apply-to":"exchanges","definition":{"expires":1}},
				{"name":"odd","pattern":"(?<=x)","apply-to":"all","definition":{"expires":1}}]`,
			"/api/operator-policies/a%2Fb": `[{"name":"ttl","pattern":"worker","apply-to":"all","definition":{"message-ttl":5000}}]`,
		}[r.URL.EscapedPath()]
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	to, err := newTarget(Config{URL: "amqp://u:p%2Fw@127.0.0.1/a%2Fb"})
	require.NoError(t, err)
	queues := []string{"troupe.worker.n.go.0.1", "troupe.dlx.queue"}
	found, err := policiesAt(t.Context(), server.Client(), server.URL, to, queues)
	require.NoError(t, err)
	require.Equal(t, []Policy{
		{"short", `^troupe\.`, []string{"max-length 100", "overflow drop-head"}},
		{"ttl", "worker", []string{"message-ttl 5000"}},
	}, found)
	to.uri.Password = "wrong"
	_, err = policiesAt(t.Context(), server.Client(), server.URL, to, queues)
	require.ErrorContains(t, err, "401")
	require.ErrorContains(t, err, "needs the tag monitoring")
}
