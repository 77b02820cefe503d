package api

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
)

// Values of one kind are or-ed, kinds are and-ed, and what is left out never comes.
func TestWhichWorkersAFilterHas(t *testing.T) {
	t.Parallel()
	workers := []view.Worker{
		{ID: "a/go/0", Node: "a", Pool: "go", State: "ready"}, {ID: "a/py/0", Node: "a", Pool: "py", State: "busy"},
		{ID: "b/go/0", Node: "b", Pool: "go", State: "busy"}, {ID: "b/sh/0", Node: "b", Pool: "sh", State: "degraded"},
	}
	for text, want := range map[string][]messages.WorkerID{
		"":                                   {"a/go/0", "a/py/0", "b/go/0", "b/sh/0"},
		"pool=":                              {"a/go/0", "a/py/0", "b/go/0", "b/sh/0"},
		"pool=go":                            {"a/go/0", "b/go/0"},
		"pool=go&pool=sh":                    {"a/go/0", "b/go/0", "b/sh/0"},
		"state=busy&state=degraded":          {"a/py/0", "b/go/0", "b/sh/0"},
		"pool=go&pool=py&state=busy":         {"a/py/0", "b/go/0"},
		"not.pool=go":                        {"a/py/0", "b/sh/0"},
		"not.pool=go&not.pool=sh":            {"a/py/0"},
		"not.node=a":                         {"b/go/0", "b/sh/0"},
		"not.state=ready&not.state=degraded": {"a/py/0", "b/go/0"},
		"pool=go&not.pool=go":                nil,
	} {
		values, err := url.ParseQuery(text)
		require.NoError(t, err)
		f, err := workerFilterOf(query{values})
		require.NoError(t, err)
		page, next, err := workerPage(workers, f, workersByID, "", 100)
		require.NoError(t, err)
		var got []messages.WorkerID
		for _, w := range page {
			got = append(got, w.ID)
		}
		require.Equal(t, want, got, text)
		require.Empty(t, next)
	}
}

// A node that is named twice, as by its name and its incarnation, gives each worker once; and a filter has a bound.
func TestWorkersOfSeveralNodes(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.unreached = []view.Unreached{{Node: "n2", Why: "it is silent"}}
	h := New(Config{Backend: b})
	list := read[WorkerList](t, ask(t, h, "GET", "/api/v1/workers?node=n1&node=01a1feab-5d8f-731c-b0bb-91bf800e6bc1&node=none", ""), 200)
	require.Len(t, list.Workers, 4)
	require.Len(t, list.Unreached, 1)
	require.Len(t, read[WorkerList](t, ask(t, h, "GET", "/api/v1/workers?pool=go&pool=py&not.state=busy", ""), 200).Workers, 4)
	require.Empty(t, read[WorkerList](t, ask(t, h, "GET", "/api/v1/workers?not.node=n1", ""), 200).Workers)
	many := strings.Join(slices.Repeat([]string{"pool=go"}, 21), "&")
	refused(t, ask(t, h, "GET", "/api/v1/workers?"+many, ""), 400, messages.CodeInvalidRequest, "pool may be given 20 times, and is 21")
}
