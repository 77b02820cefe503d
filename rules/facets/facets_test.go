package facets_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/facets"
	"github.com/troupe-run/troupe/rules/rollup"
)

func TestFieldsHaveNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[facets.Field][2]bool{ // valid, counted by minute
		"status": {true, true}, "action": {true, true}, "pool": {true, true}, "error": {true, true}, "version": {true, true},
		"worker": {true, false}, "session": {true, false}, "label.team": {true, false}, "label.": {}, "label": {}, "Status": {}, "": {},
	} {
		require.Equal(t, want, [2]bool{name.Valid(), name.Minutely()}, name)
	}
}

func TestExecutionsAreCountedByTheirValues(t *testing.T) {
	t.Parallel()
	c := facets.New(facets.List, append(facets.Fields(), "label.team"))
	for i, e := range []messages.Execution{
		{Status: messages.Completed, Action: "a.b", Version: "1", Pool: "p", WorkerID: "n/p/0", Session: "s", Labels: map[string]string{"team": "x"}},
		{Status: messages.Completed, Action: "a.c", Version: "1", Pool: "p", WorkerID: "n/p/1"},
		{Status: messages.Failed, Action: "a.b", Version: "2", Pool: "q", WorkerID: "n/p/1", Error: &messages.Error{Code: "boom"}},
		{Status: messages.Requested, Action: "a.b", Version: "2", Pool: "q"},
	} {
		c.Add(&e)
		require.EqualValues(t, i+1, c.All)
	}
	fields, left := c.Done(2)
	require.Equal(t, map[string][]facets.Count{
		"status": {{Value: "completed", N: 2}, {Value: "failed", N: 1}}, "action": {{Value: "a.b", N: 3}, {Value: "a.c", N: 1}},
		"pool": {{Value: "p", N: 2}, {Value: "q", N: 2}}, "error": {{Value: "boom", N: 1}}, "version": {{Value: "a.b@2", N: 2}, {Value: "a.b@1", N: 1}},
		"worker": {{Value: "n/p/1", N: 2}, {Value: "n/p/0", N: 1}}, "session": {{Value: "s", N: 1}}, "label.team": {{Value: "x", N: 1}},
	}, fields)
	require.Equal(t, map[string]int{"status": 1, "version": 1}, left)
}

func TestCountsByMinuteAreAdded(t *testing.T) {
	t.Parallel()
	c := facets.New(facets.Minutes, []facets.Field{facets.Status, facets.Error, facets.Version})
	failed := rollup.Key{Pool: "p", Action: "a.b", Version: "1", Status: messages.Failed, Code: "boom"}
	c.AddMinute(&failed, 3)
	c.AddMinute(&failed, 4)
	c.AddMinute(&rollup.Key{Pool: "p", Action: "a.b", Version: "1", Status: rollup.Submitted}, 100)
	c.AddMinute(&rollup.Key{Pool: "p", Action: "a.b", Version: "1", Status: messages.Completed}, 9)
	fields, left := c.Done(10)
	require.EqualValues(t, 16, c.All)
	require.Empty(t, left)
	require.Equal(t, map[string][]facets.Count{
		"status": {{Value: "completed", N: 9}, {Value: "failed", N: 7}}, "error": {{Value: "boom", N: 7}}, "version": {{Value: "a.b@1", N: 16}},
	}, fields)
}

func TestValuesAreOfBoundedNumber(t *testing.T) {
	t.Parallel()
	c := facets.New(facets.List, []facets.Field{facets.Session})
	for i := range facets.ValuesMax + 50 {
		c.Add(&messages.Execution{Session: fmt.Sprint(i)})
	}
	fields, left := c.Done(1)
	require.Equal(t, []facets.Count{{Value: facets.Other, N: 50}}, fields["session"], "none is lost")
	require.Equal(t, facets.ValuesMax, left["session"])
}

func TestTheShareOfATime(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	for back, want := range map[time.Duration]float64{0: 1, time.Hour: 0.75, 4 * time.Hour: 0, -time.Hour: 1, 5 * time.Hour: 0} {
		require.InDelta(t, want, facets.Share(at, at.Add(4*time.Hour), at.Add(back)), 1e-9, back)
	}
	require.InDelta(t, 1, facets.Share(at, at, at), 0)
}
