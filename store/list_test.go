package store_test

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// A part grows with the one before, as far as it can be looked at in what is left of the time.
func TestPartsEndWithTheirTime(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	p := store.Parts{End: now.Add(60 * time.Millisecond), Most: 4000, Times: 4}
	for name, c := range map[string]struct {
		walked, size int
		took, passed time.Duration
		want         int
	}{
		"quick":                      {1000, 400, time.Millisecond, 10 * time.Millisecond, 1600},
		"the largest":                {8000, 4000, time.Millisecond, 10 * time.Millisecond, 4000},
		"slow":                       {1000, 400, 10 * time.Millisecond, 40 * time.Millisecond, 800},
		"slower":                     {1000, 400, 40 * time.Millisecond, 55 * time.Millisecond, 50},
		"too little is left":         {1000, 400, 40 * time.Millisecond, 56 * time.Millisecond, 0},
		"over":                       {1000, 400, time.Millisecond, 61 * time.Millisecond, 0},
		"over, with little seen":     {404, 404, time.Millisecond, time.Hour, store.PartsLeast - 404},
		"over, with hardly any seen": {2, 2, time.Millisecond, time.Hour, 8},
		"slow, with little seen":     {101, 101, 30 * time.Millisecond, 30 * time.Millisecond, store.PartsLeast - 101},
		"no time passed":             {1000, 400, 0, 0, 1600},
	} {
		require.Equal(t, c.want, p.Next(c.walked, c.size, c.took, now.Add(c.passed)), name)
	}
}

// A page ends after its own time, or with the walk that it is part of.
func TestAPageEndsWithItsWalk(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	f := store.Filter{}
	require.Equal(t, now.Add(time.Second), f.End(now, time.Second))
	f.Texts = []string{"t"}
	require.Equal(t, now.Add(3*time.Second), f.End(now, time.Second), "each error is read for a text")
	require.Equal(t, now.Add(3*time.Second), (&store.Filter{Not: store.Exclusion{Texts: f.Texts}}).End(now, time.Second), "or for one that it must not have")
	f.Until = now.Add(2 * time.Second)
	require.Equal(t, f.Until, f.End(now, time.Second))
	f.Until = now.Add(4 * time.Second)
	require.Equal(t, now.Add(3*time.Second), f.End(now, time.Second))
}

func TestAFilterIsDrivenByItsMostSelectiveIndex(t *testing.T) {
	t.Parallel()
	failed, completed := []messages.Status{messages.Failed}, []messages.Status{messages.Completed}
	for name, c := range map[string]struct {
		filter store.Filter
		drive  store.Drive
		alone  bool
	}{
		"nothing":            {store.Filter{}, store.DriveAll, true},
		"key":                {store.Filter{Keys: []string{"k"}}, store.DriveKey, true},
		"key and pool":       {store.Filter{Keys: []string{"k"}, Pools: []string{"p"}}, store.DriveKey, false},
		"id":                 {store.Filter{IDPrefixes: []string{"0a"}}, store.DriveID, false},
		"label":              {store.Filter{Labels: [][2]string{{"a", "b"}}}, store.DriveLabel, true},
		"two labels":         {store.Filter{Labels: [][2]string{{"a", "b"}, {"c", "d"}}}, store.DriveLabel, false},
		"a label's values":   {store.Filter{Labels: [][2]string{{"a", "b"}, {"a", "c"}}}, store.DriveLabel, true},
		"keys":               {store.Filter{Keys: []string{"k", "l"}}, store.DriveKey, true},
		"but a key":          {store.Filter{Not: store.Exclusion{Keys: []string{"k"}}}, store.DriveAll, false},
		"but a text":         {store.Filter{Not: store.Exclusion{Texts: []string{"t"}}}, store.DriveAll, false},
		"but ids":            {store.Filter{Not: store.Exclusion{IDPrefixes: []string{"0a"}}}, store.DriveAll, false},
		"but retries":        {store.Filter{Not: store.Exclusion{Was: []store.Was{store.WasRetry}}}, store.DriveAll, false},
		"session and status": {store.Filter{Sessions: []string{"s"}, Statuses: failed}, store.DriveSession, false},
		"status":             {store.Filter{Statuses: failed}, store.DriveStatuses, true},
		"status of action":   {store.Filter{Statuses: failed, Actions: []string{"a"}}, store.DriveStatuses, false},
		"completed":          {store.Filter{Statuses: completed}, store.DriveAll, false},
		"completed action":   {store.Filter{Statuses: completed, Actions: []string{"a"}}, store.DriveAction, false},
		"error":              {store.Filter{Errors: []messages.Code{"e"}}, store.DriveStatuses, false},
		"text of an error":   {store.Filter{Texts: []string{"t"}}, store.DriveStatuses, false},
		"pool":               {store.Filter{Pools: []string{"p"}}, store.DriveAll, false},
		"waits in a pool":    {store.Filter{Pools: []string{"p"}, Statuses: []messages.Status{messages.Requested}}, store.DriveStatuses, true},
		"actions":            {store.Filter{Actions: []string{"a", "b"}}, store.DriveAction, true},
		"actions and pools":  {store.Filter{Actions: []string{"a", "b"}, Pools: []string{"p", "q"}}, store.DriveAction, false},
		"sessions":           {store.Filter{Sessions: []string{"s", "t"}}, store.DriveSession, true},
		"errors":             {store.Filter{Errors: []messages.Code{"e", "f"}}, store.DriveStatuses, false},
		"workers":            {store.Filter{Workers: []string{"v", "w"}}, store.DriveAll, false},
		"waits in pools":     {store.Filter{Pools: []string{"p", "q"}, Statuses: []messages.Status{messages.Requested}}, store.DriveStatuses, true},
		"time":               {store.Filter{From: time.Unix(1, 0)}, store.DriveAll, false},
		"ended from":         {store.Filter{EndedFrom: time.Unix(1, 0)}, store.DriveAll, false},
		"failed before":      {store.Filter{Statuses: failed, EndedTo: time.Unix(1, 0)}, store.DriveStatuses, false},
		"not":                {store.Filter{Actions: []string{"a"}, Not: store.Exclusion{Pools: []string{"p"}}}, store.DriveAction, false},
	} {
		drive := c.filter.Drive(true)
		require.Equal(t, c.drive, drive, name)
		require.Equal(t, c.alone, c.filter.Alone(drive), name)
	}
	require.Equal(t, store.DriveAll, (&store.Filter{IDPrefixes: []string{"0"}}).Drive(false), "too many ids have it")
}

func TestWhatEndedInATimeWasRequestedAroundIt(t *testing.T) {
	t.Parallel()
	at := func(hours int) time.Time {
		if hours == 0 {
			return time.Time{}
		}
		return time.Date(2030, 1, 31, 0, 0, 0, 0, time.UTC).Add(time.Duration(hours) * time.Hour)
	}
	for name, c := range map[string]struct{ from, to, endedFrom, endedTo, wantFrom, wantTo int }{
		"any time":                  {},
		"requested in a time":       {from: 1, to: 2, wantFrom: 1, wantTo: 2},
		"ended from":                {endedFrom: 30, wantFrom: 6},
		"ended before":              {endedTo: 30, wantTo: 30},
		"ended in a time":           {endedFrom: 30, endedTo: 31, wantFrom: 6, wantTo: 31},
		"requested long before":     {from: -100, endedFrom: 30, wantFrom: -100},
		"requested later":           {from: 29, endedFrom: 30, endedTo: 31, wantFrom: 29, wantTo: 31},
		"requested before its ends": {to: 5, endedFrom: 30, endedTo: 31, wantFrom: 6, wantTo: 5},
		"requested up to after it":  {to: 40, endedTo: 31, wantTo: 31},
	} {
		f := store.Filter{From: at(c.from), To: at(c.to), EndedFrom: at(c.endedFrom), EndedTo: at(c.endedTo)}
		from, to := f.Requested()
		require.Equal(t, []time.Time{at(c.wantFrom), at(c.wantTo)}, []time.Time{from, to}, name)
		require.Equal(t, c.endedFrom+c.endedTo != 0, f.Ends(), name)
	}
}

func TestPrefixesAreRangesOfIDs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ prefixes, want []string }{
		"one":                        {[]string{"01a1f"}, []string{"01a1f"}},
		"two, in order":              {[]string{"02", "01"}, []string{"01", "02"}},
		"one within another":         {[]string{"01a1f", "01a1", "01a1", "01a2"}, []string{"01a1", "01a2"}},
		"within it, and further":     {[]string{"01", "01ff", "01f", "02"}, []string{"01", "02"}},
		"no digits, and one that is": {[]string{"01", "xyz"}, []string{"01", "none"}},
		"capitals":                   {[]string{"ab12", "AC", "AB", "aB1"}, []string{"ab", "ac"}},
		"all ids":                    {[]string{"", "01"}, []string{""}},
		"no digits first":            {[]string{"!", "01"}, []string{"none", "01"}},
		"too long":                   {[]string{strings.Repeat("0", 33)}, []string{"none"}},
		"nothing":                    {},
	} {
		var got []string
		for _, r := range store.IDRanges(c.prefixes) {
			first, last := hex.EncodeToString(r[0][:]), hex.EncodeToString(r[1][:])
			if first > last {
				got = append(got, "none")
				continue
			}
			begin := strings.TrimRight(first, "0")
			require.Equal(t, begin+strings.Repeat("f", 32-len(begin)), last, name)
			got = append(got, begin)
		}
		require.Equal(t, c.want, got, name)
	}
	require.True(t, store.IsIDPrefix("01a1f"))
	require.False(t, store.IsIDPrefix("xyz"))
}

func TestLabelsOfANameAreAlternatives(t *testing.T) {
	t.Parallel()
	f := store.Filter{Labels: [][2]string{{"team", "a"}, {"env", "x"}, {"team", "b"}}, Not: store.Exclusion{Labels: [][2]string{{"old", ""}, {"env", "z"}}}}
	require.Equal(t, []store.LabelSet{{Name: "team", Values: []string{"a", "b"}}, {Name: "env", Values: []string{"x"}}}, f.LabelSets())
	for name, c := range map[string]struct {
		labels map[string]string
		is     bool
	}{
		"the one":          {map[string]string{"team": "a", "env": "x"}, true},
		"the other":        {map[string]string{"team": "b", "env": "x", "more": "m"}, true},
		"another value":    {map[string]string{"team": "c", "env": "x"}, false},
		"one of two names": {map[string]string{"team": "a"}, false},
		"one left out":     {map[string]string{"team": "a", "env": "x", "old": ""}, false},
		"none":             {nil, false},
	} {
		require.Equal(t, c.is, f.Labelled(c.labels), name)
	}
	require.True(t, (&store.Filter{}).Labelled(nil))
}

func TestAStoredErrorBeginsWithItsCode(t *testing.T) {
	t.Parallel()
	for _, code := range []messages.Code{"action_error", `odd"<code>`} {
		text := store.EncodeError(&messages.Error{Code: code, Message: "m"})
		require.Equal(t, string(store.ErrorBegins(code)), string(text[:len(store.ErrorBegins(code))]))
	}
}
