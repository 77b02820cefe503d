package failures_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/failures"
)

var start = time.Date(2030, 1, 31, 3, 12, 0, 0, time.UTC)

func TestAMessageLosesWhatDiffers(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		`connect to 10.0.0.7:5432: refused after 3.25 s`:                                "connect to ‹n›: refused after ‹n› s",
		`no such file: '/data/in/a b.csv'`:                                              "no such file: ‹text›",
		`key "user-17" is not in {"a": 1}`:                                              "key ‹text› is not in {‹text›: ‹n›}",
		"can't open what isn't there":                                                   "can't open what isn't there",
		"execution 01a1feab-5d86-7105-9159-7b83bc0030fb, object 0xc000123abc, deadbeef": "execution ‹id›, object ‹id›, deadbeef",
		"  two\nlines\tand   blanks ":                                                   "two lines and blanks",
		"":                                                                              "",
		"0x1f of h264, v1.4.2-rc1 at 08:53:02, 1e9":                                     "‹n›x‹n›f of h‹n›, v‹n›-rc‹n› at ‹n›, ‹n›e‹n›",
		"größe 3 für „x“ 'y":                                                            "größe ‹n› für „x“ 'y",
	} {
		require.Equal(t, want, failures.Normal(message), message)
	}
	require.Equal(t, failures.Normal("user 17 of 3"), failures.Normal("user 4711 of 12"))
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		got := failures.Normal(text)
		require.True(t, utf8.ValidString(got))
	})
}

func failed(minute int, action, code, message, worker string) *messages.Execution {
	return &messages.Execution{
		ID: messages.NewExecutionID(), Action: action, WorkerID: messages.WorkerID(worker), Status: messages.Failed,
		FinishedAt: start.Add(time.Duration(minute) * time.Minute), Error: &messages.Error{Code: messages.Code(code), Type: "OSError", Message: message},
	}
}

func TestFailuresOfOneCauseAreOneGroup(t *testing.T) {
	t.Parallel()
	all := []*messages.Execution{
		failed(3, "a.b", "boom", "row 1 is bad", "n/p/0"), failed(9, "a.b", "boom", "row 2 is bad", "n/p/1"), failed(1, "a.b", "boom", "row 3 is bad", "n/p/1"),
		failed(2, "a.b", "boom", "row 4 is bad", "n/p/1"), failed(5, "a.b", "other", "row 4 is bad", "n/p/1"), failed(4, "c.d", "boom", "row 4 is bad", ""),
		{ID: messages.NewExecutionID(), Action: "c.d", Status: messages.Abandoned, FinishedAt: start},
	}
	grouped := func(by failures.By, limit int) ([]*failures.Group, int) {
		g := failures.NewGroups(by)
		for _, e := range all {
			g.Add(e)
		}
		require.Equal(t, len(all), g.All())
		return g.Done(limit)
	}
	list, left := grouped(failures.ByMessage, 3)
	require.Len(t, list, 3)
	require.Equal(t, 1, left)
	first := list[0]
	require.Equal(t, "a.b", first.Action)
	require.Equal(t, messages.Code("boom"), first.Code)
	require.Equal(t, "OSError", first.Type)
	require.Equal(t, "row ‹n› is bad", first.Message)
	require.Equal(t, "row 2 is bad", first.Example)
	require.Equal(t, 4, first.N)
	require.Equal(t, start.Add(time.Minute), first.First)
	require.Equal(t, start.Add(9*time.Minute), first.Last)
	require.Equal(t, []messages.ExecutionID{all[1].ID, all[0].ID, all[3].ID}, first.Examples, "the newest first")
	require.Equal(t, []failures.Share{{Value: "n/p/1", N: 3}, {Value: "n/p/0", N: 1}}, first.Workers)
	require.Empty(t, first.Actions, "it is the same one")

	list, _ = grouped(failures.ByWorker, 10)
	require.Equal(t, "n/p/1", list[0].Worker)
	require.Equal(t, []failures.Share{{Value: "boom", N: 3}, {Value: "other", N: 1}}, list[0].Codes)
	require.Equal(t, []failures.Share{{Value: "a.b", N: 4}}, list[0].Actions)
	require.Empty(t, list[1].Worker, "these had none")
	list, _ = grouped(failures.ByAction, 10)
	require.Equal(t, []int{5, 2}, []int{list[0].N, list[1].N})
	list, _ = grouped(failures.ByCode, 10)
	require.Len(t, list, 4)
	require.Equal(t, messages.Code("abandoned"), list[3].Code, "it has no error")
}

func TestGroupsAreOfBoundedNumber(t *testing.T) {
	t.Parallel()
	g := failures.NewGroups(failures.ByAction)
	for i := range failures.GroupsMax + 50 {
		g.Add(failed(i, fmt.Sprint("a.", i), "boom", strings.Repeat("x", 5000), fmt.Sprint("n/p/", i)))
	}
	list, left := g.Done(10)
	require.Len(t, list, 10)
	require.Equal(t, failures.GroupsMax+1-10, left)
	require.Equal(t, failures.Other, list[0].Action)
	require.Equal(t, 50, list[0].N, "none is lost")
	require.Len(t, list[0].Workers, failures.SharesMax)
	require.Less(t, len(list[0].Example), 400)
}
