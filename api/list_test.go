package api

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

func TestAListIsAskedForByItsQuery(t *testing.T) {
	t.Parallel()
	from, to := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC), time.Date(2030, 1, 31, 9, 0, 0, 0, time.UTC)
	for text, want := range map[string]store.Filter{
		"": {},
		"status=failed,timed_out&status=completed": {Statuses: []messages.Status{messages.Failed, messages.TimedOut, messages.Completed}},
		"label=a%3Db&label=c%3D":                   {Labels: [][2]string{{"a", "b"}, {"c", ""}}},
		"q=connection+%22refused%22":               {Texts: []string{`connection "refused"`}},
		"error=action_error&key=k":                 {Errors: []messages.Code{"action_error"}, Keys: []string{"k"}},
		"action=a&action=b&pool=p&pool=q&session=s&session=t&worker=v&worker=w&error=e&error=f": {Actions: []string{"a", "b"}, Pools: []string{"p", "q"},
			Sessions: []string{"s", "t"}, Workers: []string{"v", "w"}, Errors: []messages.Code{"e", "f"}},
		"action=a&not.action=a&pool=&pool=p":                                   {Actions: []string{"a"}, Pools: []string{"p"}, Not: store.Exclusion{Actions: []string{"a"}}},
		"id_prefix=01A1-fd":                                                    {IDPrefixes: []string{"01a1fd"}},
		"from=2030-01-31T08:00:00Z&to=2030-01-31T10:00:00%2B01:00":             {From: from, To: to},
		"ended_from=2030-01-31T08:00:00Z&ended_to=2030-01-31T10:00:00%2B01:00": {EndedFrom: from, EndedTo: to},
		"not.status=completed,failed&not.action=a&not.action=b&not.pool=p&not.session=s&not.worker=w&not.error=e&not.label=x%3Dy": {Not: store.Exclusion{
			Statuses: []messages.Status{messages.Completed, messages.Failed}, Actions: []string{"a", "b"}, Pools: []string{"p"},
			Sessions: []string{"s"}, Workers: []string{"w"}, Errors: []messages.Code{"e"}, Labels: [][2]string{{"x", "y"}}}},
		"was=retry,taken_back&was=retry&was=state_lost":             {Was: []store.Was{store.WasRetry, store.WasTakenBack, store.WasStateLost}},
		"q=a+b&q=&q=c&key=k&key=l&id_prefix=01A1-fd&id_prefix=01b2": {Texts: []string{"a b", "c"}, Keys: []string{"k", "l"}, IDPrefixes: []string{"01a1fd", "01b2"}},
		"not.q=a+b&not.q=c&not.key=k&not.key=l&not.id_prefix=01A1-fd&not.was=retry,taken_back&not.was=retry": {Not: store.Exclusion{
			Texts: []string{"a b", "c"}, Keys: []string{"k", "l"}, IDPrefixes: []string{"01a1fd"}, Was: []store.Was{store.WasRetry, store.WasTakenBack}}},
		"not.session=":                       {Not: store.Exclusion{Sessions: []string{""}}},
		"order=newest&cursor=" + cursor("7"): {Before: 7},
		"order=oldest&cursor=" + cursor("7"): {Oldest: true, After: 7},
	} {
		values, err := url.ParseQuery(text)
		require.NoError(t, err)
		got, err := filterOf(query{values})
		require.NoError(t, err, text)
		want.Limit = 100
		require.Equal(t, want, got, text)
	}
	h := New(Config{Backend: newBackend(t)})
	for text, why := range map[string]string{
		"status=odd": "status", "not.status=odd": "not.status", "label=odd": "name=value", "not.label=%3Dx": "not.label", "id_prefix=01a": "4 to 32", "id_prefix=zzzz": "hexadecimal",
		"id_prefix=" + strings.Repeat("0", 33): "32", "from=yesterday": "from must be a time", "to=x": "to must be", "ended_from=yesterday": "ended_from must be a time", "ended_to=x": "ended_to must be", "order=odd": "newest or oldest", "was=late": `was must be retry, interrupted, taken_back or state_lost, got "late"`,
		"q=" + strings.Repeat("x", 201): "200 bytes", "not.action=" + strings.Repeat("a&not.action=", 21): "20 times", "action=a" + strings.Repeat("&action=a", 20): "action may be given 20 times, and is 21", "error=e" + strings.Repeat("&error=e", 20): "20 times",
		"from=a&from=b": "give it once", "not.id_prefix=01a": "not.id_prefix must be 4 to 32", "id_prefix=01a1&id_prefix=x": "hexadecimal", "not.was=late": "not.was must be retry",
		"q=a&q=b&q=c&q=d&q=e&q=f": "q may be given 5 times, and is 6", "not.q=" + strings.Repeat("x", 201): "not.q, may have 200 bytes",
		"not.q=" + strings.Repeat("a&not.q=", 20) + "a": "20 times", "key=k" + strings.Repeat("&key=k", 20): "key may be given 20 times",
	} {
		refused(t, ask(t, h, "GET", executionsPath+"?"+text, ""), 400, messages.CodeInvalidRequest, why)
	}
}

func TestAPageSaysHowFarItLooked(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	for i := range 3 {
		ask(t, h, "POST", executionsPath, fmt.Sprintf(`{"action_ref":"a","labels":{"n":"%d"}}`, i))
	}
	page := read[ExecutionList](t, ask(t, h, "GET", executionsPath+"?order=oldest&limit=2&not.label=n%3D0", ""), 200)
	require.Equal(t, store.MoreEnd, page.More)
	require.Nil(t, page.SearchedTo)
	require.Len(t, page.Executions, 2)
	require.Equal(t, "1", page.Executions[0].Labels["n"])
	page = read[ExecutionList](t, ask(t, h, "GET", executionsPath+"?limit=2", ""), 200)
	require.Equal(t, store.MoreFound, page.More)
	require.Equal(t, page.Executions[1].RequestedAt, page.SearchedTo.At)
	rest := read[ExecutionList](t, ask(t, h, "GET", executionsPath+"?limit=2&cursor="+page.NextCursor, ""), 200)
	require.Equal(t, store.MoreEnd, rest.More)
	require.Len(t, rest.Executions, 1)
}
