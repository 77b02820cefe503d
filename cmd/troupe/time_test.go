package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/rules/submit"
)

// clocks are how a node tells its time: in the header of the API, or, as older ones do, with the date of the answer.
var clocks = map[string]func(h http.Header, now time.Time){
	"header": func(h http.Header, now time.Time) {
		h.Set(api.HeaderTime, now.UTC().Format(time.RFC3339Nano))
		h.Set("Date", "Mon, 02 Jan 2006 15:04:05 GMT") // the machine's clock, which decides about nothing
	},
	"date alone": func(h http.Header, now time.Time) { h.Set("Date", now.UTC().Format(http.TimeFormat)) },
}

// A node's clock and that of the machine on which troupe runs are apart: the node's decides.
func TestDelaysAndAgesGoByTheNodesClock(t *testing.T) {
	t.Parallel()
	for name, tell := range clocks {
		for _, apart := range []time.Duration{2 * time.Hour, 0, -2 * time.Hour} {
			t.Run(name+" "+apart.String(), func(t *testing.T) {
				t.Parallel()
				testNodesClock(t, apart, func(h http.Header) { tell(h, time.Now().Add(apart)) })
			})
		}
	}
}

func testNodesClock(t *testing.T, apart time.Duration, tell func(h http.Header)) {
	var asked submit.Request
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/executions", func(w http.ResponseWriter, r *http.Request) {
		tell(w.Header())
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &asked)
		_, _ = io.WriteString(w, execution(id1, "requested", ""))
	})
	mux.HandleFunc("GET /api/v1/executions", func(w http.ResponseWriter, _ *http.Request) {
		tell(w.Header())
		at := time.Now().Add(apart)
		write := func(id string, age time.Duration) string {
			return execution(id, "completed", `,"requested_at":"`+at.Add(-age).UTC().Format(time.RFC3339Nano)+`"`)
		}
		_, _ = io.WriteString(w, `{"executions":[`+write(id1, 5*time.Minute)+`,`+write(id2, 40*time.Minute)+`]}`)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		tell(w.Header())
		http.Error(w, "{}", http.StatusNotFound)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	environ := []string{"TROUPE_SERVER=" + s.URL}

	r := call(t, "", environ, "submit", "core.echo", "--at", "10m")
	require.Zero(t, r.code, r.err)
	require.WithinDuration(t, time.Now().Add(apart+10*time.Minute), asked.RunAt, time.Minute)
	r = call(t, "", environ, "submit", "core.echo", "--at", "2030-01-31T08:00:00Z")
	require.Zero(t, r.code, r.err)
	require.Equal(t, time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC), asked.RunAt)

	r = call(t, "", environ, "list", "--since", "20m")
	require.Zero(t, r.code, r.err)
	require.Regexp(t, regexp.MustCompile(id1+`.* (4m5\ds|5m\d\ds)`), r.out)
	require.NotContains(t, r.out, id2)
}
