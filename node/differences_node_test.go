package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/rules/differences"
)

// stores are the ways to configure a node's store.
func stores(t *testing.T) map[string]func(*testing.T, *node.Config) {
	t.Helper()
	return map[string]func(*testing.T, *node.Config){
		"sqlite":   func(*testing.T, *node.Config) {},
		"postgres": func(t *testing.T, c *node.Config) { paired(c, database(t)) },
	}
}

// answered is what the API answers a caller of this machine.
func answered[T any](t *testing.T, h http.Handler, path string) (v T) {
	t.Helper()
	r, w := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil), httptest.NewRecorder()
	r.RemoteAddr, r.Host = "127.0.0.1:40000", "localhost"
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v))
	return v
}

// What a node did is compared with the time before it, in which there was none.
func TestTheAPISaysWhatIsDifferent(t *testing.T) {
	t.Parallel()
	bad := func(context.Context, *messages.Task) (any, error) { return nil, errors.New("the tide was out") }
	for name, on := range stores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := lab(t, func(c *node.Config) {
				handle(map[string]messages.Handler{"noop": noop, "bad": bad})(c)
				on(t, c)
			}, goPack(t, map[string]string{"noop": "", "bad": "max_retries: 0\n"}))
			for range 12 {
				k.run("t.noop", nil)
			}
			for range 3 {
				k.run("t.bad", nil)
			}
			_, err := k.Backend.Reload(t.Context(), "ann")
			require.NoError(t, err)
			h := api.New(api.Config{Backend: k.Backend})
			var d differences.Differences
			found := func(of differences.Of, what string) *differences.Difference {
				for i := range d.Found {
					if f := &d.Found[i]; f.Of == of && f.What == what {
						return f
					}
				}
				return nil
			}
			k.until("all is recorded", func() bool {
				d = answered[differences.Differences](t, h, "/api/v1/differences")
				failed := found(differences.Error, differences.Failed)
				return failed != nil && failed.Value == 3 && found(differences.Command, "reload") != nil && found(differences.Node, "joined") != nil
			})
			require.Equal(t, differences.Error, d.Found[0].Of, "what fails comes first")
			require.Equal(t, "t.bad", d.Found[0].Subject)
			require.Zero(t, d.Found[0].Before)
			require.InDelta(t, 15, found(differences.Pool, differences.Submitted).Value, 0)
			require.Equal(t, "test", found(differences.Node, "joined").Subject)
			require.Len(t, d.Notes, 1)
			require.Contains(t, d.Notes[0], "nothing is recorded of the time before")
			require.WithinDuration(t, time.Now(), d.To, 2*time.Minute)
		})
	}
}
