package storetest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// testListText searches the errors of executions for a text.
func testListText(t *testing.T, k *kit) {
	messagesOf := map[string]string{
		"refused": `dial tcp: "db": connection REFUSED`, "umlaut": "Übergabe an <b> & \u0000 missed \\ it", "far": strings.Repeat("x", store.ErrorSearched) + "needle", "other": "exit 100%",
		"cut": "wait… “für”", // a character as octal escapes of its bytes has digits
	}
	ids := map[string]messages.ExecutionID{}
	for name, text := range messagesOf {
		e := k.bring(t, messages.Running)
		k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: messages.Outcome{Status: messages.Failed, Error: &messages.Error{Code: messages.CodeActionError, Message: text,
			Details: json.RawMessage(`{"where":"Attic"}`)}}})
		ids[name] = e.ID
	}
	ended := k.bring(t, messages.Completed)
	for text, want := range map[string][]string{
		"connection refused": {"refused"}, `"DB"`: {"refused"}, "Übergabe an <B>": {"umlaut"}, "übergabe": nil, "\u0000 missed \\": {"umlaut"}, "needle": nil, "xxxx": {"far"},
		"100%": {"other"}, "1_0": nil, "attic": {"refused", "umlaut", "other", "cut"}, "action_error": {"refused", "umlaut", "far", "other", "cut"}, "nowhere": nil,
		"200": nil, "342": nil, "303": nil, "t… “F": {"cut"},
	} {
		page, err := k.List(t.Context(), store.Filter{Texts: []string{text}})
		require.NoError(t, err, text)
		var got, all []messages.ExecutionID
		for _, e := range page.Executions {
			got = append(got, e.ID)
		}
		for _, name := range want {
			all = append(all, ids[name])
		}
		require.ElementsMatch(t, all, got, text)
	}
	page, err := k.List(t.Context(), store.Filter{Texts: []string{"refused"}, Statuses: []messages.Status{messages.Completed, messages.TimedOut}})
	require.NoError(t, err)
	require.Empty(t, page.Executions, ended.ID)
}

// testListParameters searches the parameters of some actions for a text, beside the errors of all.
func testListParameters(t *testing.T, k *kit) {
	with := func(action, parameters string, to messages.Status) messages.ExecutionID {
		return k.bring(t, to, func(e *messages.Execution) { e.Action, e.Parameters = action, json.RawMessage(parameters) }).ID
	}
	order := with("a.open", `{"order": "A-17", "note": "<b> ü"}`, messages.Failed)
	secret := with("a.secret", `{"order": "A-17"}`, messages.Failed)
	done := with("a.open", `{"order": "a-17"}`, messages.Completed)
	waits := with("a.open", `{"order": "A-17"}`, messages.Requested)
	far := with("a.open", `{"x": "`+strings.Repeat("x", store.ParametersSearched)+`needle"}`, messages.Failed)
	long := with("a.open", `{"order": "A-17", "x": "`+strings.Repeat("x", store.ParametersMax)+`"}`, messages.Failed)
	e := k.bring(t, messages.Running)
	k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: messages.Outcome{Status: messages.Failed, Error: &messages.Error{Code: messages.CodeActionError, Message: "no order A-17"}}})
	all := []messages.Status{messages.Requested, messages.Completed, messages.Failed}
	for name, c := range map[string]struct {
		f    store.Filter
		want []messages.ExecutionID
	}{
		"those without a result":      {store.Filter{Texts: []string{"a-17"}, ParametersOf: []string{"a.open", "a.other"}}, []messages.ExecutionID{order, e.ID}},
		"of two actions":              {store.Filter{Texts: []string{"A-17"}, ParametersOf: []string{"a.secret", "a.open"}}, []messages.ExecutionID{order, secret, e.ID}},
		"no parameters":               {store.Filter{Texts: []string{"A-17"}}, []messages.ExecutionID{e.ID}},
		"as JSON has it":              {store.Filter{Texts: []string{"Order\""}, ParametersOf: []string{"a.open"}}, nil},
		"other letters":               {store.Filter{Texts: []string{"ü"}, ParametersOf: []string{"a.open"}}, []messages.ExecutionID{order}},
		"too far behind":              {store.Filter{Texts: []string{"needle"}, ParametersOf: []string{"a.open"}}, nil},
		"statuses that are named":     {store.Filter{Texts: []string{"A-17"}, ParametersOf: []string{"a.open"}, Statuses: all}, []messages.ExecutionID{order, done, waits, e.ID}},
		"with other filters":          {store.Filter{Texts: []string{"A-17"}, ParametersOf: []string{"a.open"}, Statuses: all, Actions: []string{"a.open"}, Not: store.Exclusion{Statuses: all[2:]}}, []messages.ExecutionID{done, waits}},
		"the same, of the oldest one": {store.Filter{Texts: []string{"A-17"}, ParametersOf: []string{"a.open"}, Oldest: true, Limit: 1}, []messages.ExecutionID{order}},
	} {
		page, err := k.List(t.Context(), c.f)
		require.NoError(t, err, name)
		var got []messages.ExecutionID
		for _, e := range page.Executions {
			got = append(got, e.ID)
		}
		require.ElementsMatch(t, c.want, got, "%s; %s is searched in its first bytes, and %s is too long", name, far, long)
	}
}
