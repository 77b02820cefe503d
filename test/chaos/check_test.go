package chaos_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/test/chaos"
)

// testHistory is a history that a test writes.
type testHistory struct{ chaos.History }

// id is the id of execution number n.
func id(n int) messages.ExecutionID {
	return messages.ExecutionID{0: 1, 6: 0x70, 8: 0x80, 15: byte(n)}
}

func (w *testHistory) submit(n int, key string, want ...messages.Status) *chaos.Stored {
	call := chaos.Call{Op: "submit", State: chaos.Invoked, Key: key, Want: want}
	w.Calls = append(w.Calls, call)
	call.State, call.ID = chaos.OK, id(n)
	w.Calls = append(w.Calls, call)
	return w.store(chaos.Stored{ID: id(n), Key: key, Action: "chaos.work", Status: messages.Requested, Traced: true})
}

func (w *testHistory) store(e chaos.Stored) *chaos.Stored {
	w.Executions = append(w.Executions, e)
	return &w.Executions[len(w.Executions)-1]
}

func (w *testHistory) effect(kind string, n int, attempt messages.Attempt, session string, count int, lost bool) {
	w.Effects = append(w.Effects, chaos.Effect{
		Kind: kind, Execution: id(n), Attempt: attempt, Pid: 100, Session: session, Count: count, Lost: lost,
		At: time.Duration(len(w.Effects)+1) * time.Millisecond,
	})
}

// moves adds events of the given kinds to the execution.
func moves(e *chaos.Stored, kinds ...string) {
	to := map[string]messages.Status{
		"place": messages.Scheduled, "claim": messages.Running, "rescue": messages.Requested, "take_back": messages.Requested,
		"complete": messages.Completed, "fail": messages.Failed, "abandon": messages.Abandoned, "cancel": messages.Cancelling,
		"cancelled": messages.Cancelled,
	}
	for _, kind := range kinds {
		if kind == "place" {
			e.Attempt++
		}
		e.Events = append(e.Events, store.Event{Kind: kind, Attempt: e.Attempt, From: e.Status, To: to[kind]})
		e.Status = to[kind]
	}
	if e.Status == messages.Completed {
		e.Result = json.RawMessage(fmt.Sprintf(`{"execution":%q,"attempt":%d}`, e.ID, e.Attempt))
	}
}

// validHistory is a history without a violation, with an example of each kind of work: plain work, idempotent work that was repeated,
// a session that lost its state and was informed, a failed execution with its retry, and a cancelled one.
func validHistory() *testHistory {
	w := &testHistory{}
	plain := w.submit(1, "plain", messages.Completed)
	moves(plain, "place", "take_back", "place", "claim", "rescue", "place", "claim", "complete")
	plain.Events[4].Reason = "never started: its worker leaves"
	w.effect("start", 1, 3, "", 0, false)
	w.effect("end", 1, 3, "", 0, false)

	again := w.submit(2, "again", messages.Completed)
	again.Idempotent = true
	moves(again, "place", "claim", "rescue", "place", "claim", "complete")
	w.effect("start", 2, 1, "", 0, false)
	w.effect("tick", 2, 1, "", 0, false)
	w.effect("start", 2, 2, "", 0, false)
	w.effect("end", 2, 2, "", 0, false)

	for i, count := range []int{1, 2, 1} {
		n, lost := 3+i, i == 2
		e := w.submit(n, fmt.Sprintf("session %d", n), messages.Completed)
		e.Session = "alice"
		moves(e, "place", "claim", "complete")
		w.effect("start", n, 1, "alice", count, lost)
		w.effect("end", n, 1, "alice", count, lost)
	}

	first := w.submit(6, "chain", messages.Failed)
	first.RetriedAs = id(7)
	moves(first, "place", "claim", "fail")
	second := w.store(chaos.Stored{ID: id(7), Action: "chaos.work", Status: messages.Requested, Original: id(6), RetryCount: 1, Traced: true})
	moves(second, "place", "claim", "fail")
	w.effect("start", 6, 1, "", 0, false)
	w.effect("start", 7, 1, "", 0, false)

	expired := w.submit(9, "expired", messages.Failed)
	moves(expired, "place", "fail")
	expired.Code = messages.CodeQueueTimeout
	w.DeadLetters = append(w.DeadLetters, messages.Placement{Execution: id(9), Attempt: 1})

	stopped := w.submit(8, "stopped", messages.Completed, messages.Cancelled)
	w.Calls = append(w.Calls, chaos.Call{Op: "cancel", State: chaos.Invoked, ID: id(8)})
	moves(stopped, "place", "claim", "cancel", "cancelled")
	w.effect("start", 8, 1, "", 0, false)
	return w
}

// at returns execution number n.
func (w *testHistory) at(n int) *chaos.Stored {
	i := slices.IndexFunc(w.Executions, func(e chaos.Stored) bool { return e.ID == id(n) })
	return &w.Executions[i]
}

// line returns the position of the first side effect of a kind and execution.
func (w *testHistory) line(kind string, n int, attempt messages.Attempt) int {
	return slices.IndexFunc(w.Effects, func(e chaos.Effect) bool {
		return e.Kind == kind && e.Execution == id(n) && e.Attempt == attempt
	})
}

// Each of the mutations breaks one rule.
var mutations = []struct {
	rule   string
	name   string
	mutate func(*testHistory)
}{
	{"accepted_is_kept", "an accepted execution is gone", func(w *testHistory) {
		w.Calls = append(w.Calls, chaos.Call{Op: "submit", State: chaos.OK, Key: "plain", ID: id(99)})
	}},
	{"one_key_one_execution", "a repeated call made another execution", func(w *testHistory) {
		moves(w.store(chaos.Stored{ID: id(20), Key: "plain", Status: messages.Requested}), "place", "claim", "complete")
	}},
	{"one_key_one_execution", "a repeated call was answered with another execution", func(w *testHistory) {
		w.Calls = append(w.Calls, chaos.Call{Op: "submit", State: chaos.OK, Key: "plain", ID: id(2)})
	}},
	{"nothing_uninvited", "the store holds what nobody sent", func(w *testHistory) {
		moves(w.store(chaos.Stored{ID: id(20), Key: "who", Status: messages.Requested}), "place", "claim", "complete")
	}},
	{"has_an_outcome", "an execution is still on its way", func(w *testHistory) {
		e := w.submit(20, "stuck", messages.Completed)
		moves(e, "place")
	}},
	{"one_outcome", "an outcome is followed by another", func(w *testHistory) {
		e := w.at(1)
		e.Events = append(e.Events, store.Event{Kind: "fail", Attempt: 3, From: messages.Completed, To: messages.Failed})
	}},
	{"history_is_whole", "a change is missing", func(w *testHistory) {
		w.at(1).Events = slices.Delete(w.at(1).Events, 3, 4)
	}},
	{"history_is_whole", "a change of an old attempt had effect", func(w *testHistory) {
		e := w.at(2)
		e.Events[len(e.Events)-1].Attempt = 1
	}},
	{"history_is_whole", "the row differs from its changes", func(w *testHistory) { w.at(8).Attempt = 2 }},
	{"outcome_of_last_attempt", "an old attempt's result is stored", func(w *testHistory) {
		w.at(2).Result = bytes.Replace(w.at(2).Result, []byte(`"attempt":2`), []byte(`"attempt":1`), 1)
	}},
	{"outcome_of_last_attempt", "another execution's result is stored", func(w *testHistory) { w.at(3).Result = w.at(1).Result }},
	{"outcome_is_wanted", "work failed that cannot", func(w *testHistory) {
		e := w.at(1)
		e.Events = e.Events[:len(e.Events)-1]
		e.Status = messages.Running
		moves(e, "fail")
	}},
	{"outcome_is_wanted", "work failed with a code that is not its own", func(w *testHistory) {
		w.at(6).Code = messages.CodeNoWorkers
		for i := range w.Calls {
			if w.Calls[i].Key == "chain" {
				w.Calls[i].Codes = []messages.Code{messages.CodeActionError, ""}
			}
		}
	}},
	{"cancelled_on_request", "a cancel hit another execution", func(w *testHistory) {
		w.Calls[len(w.Calls)-1].ID = id(1)
	}},
	{"expired_by_its_letter", "a dead letter of an old attempt ended the new one", func(w *testHistory) {
		e := w.at(9)
		e.Events, e.Status, e.Attempt = nil, messages.Requested, 0
		moves(e, "place", "take_back", "place", "fail")
	}},
	{"expired_by_its_letter", "nothing was dead-lettered", func(w *testHistory) { w.DeadLetters = nil }},
	{"completed_really_ran", "an outcome without an end", func(w *testHistory) {
		at := w.line("end", 1, 3)
		w.Effects = slices.Delete(w.Effects, at, at+1)
	}},
	{"effect_is_known", "something ran that is not stored", func(w *testHistory) { w.effect("start", 99, 1, "", 0, false) }},
	{"effect_is_known", "an attempt ran that was never made", func(w *testHistory) { w.effect("tick", 1, 4, "", 0, false) }},
	{"started_once", "work that is not idempotent ran twice", func(w *testHistory) {
		at := w.line("start", 1, 3)
		old := w.Effects[at]
		old.Attempt = 1
		w.Effects = slices.Insert(w.Effects, at, old)
	}},
	{"started_once", "one attempt ran twice", func(w *testHistory) {
		at := w.line("start", 2, 1)
		w.Effects = slices.Insert(w.Effects, at, w.Effects[at])
	}},
	{"no_claim_twice", "work without effects was given to two workers", func(w *testHistory) {
		moves(w.submit(20, "silent", messages.Completed), "place", "claim", "rescue", "place", "claim", "complete")
		w.at(20).Traced = false
	}},
	{"no_claim_twice", "a claim was given back for a reason that does not say that it had not begun", func(w *testHistory) {
		w.at(1).Events[4].Reason = "process ended: signal: SIGKILL"
	}},
	{"no_overlap", "an old attempt goes on beside the new one", func(w *testHistory) {
		w.Effects = append(w.Effects, w.Effects[w.line("tick", 2, 1)])
	}},
	{"no_overlap", "an execution goes on beside its retry", func(w *testHistory) {
		w.effect("tick", 6, 1, "", 0, false)
		w.Effects[len(w.Effects)-1].At = 0
	}},
	{"ended_before_repeated", "an old attempt's last sign was written before the new one's start, and was later", func(w *testHistory) {
		w.Effects[w.line("tick", 2, 1)].At = w.Effects[w.line("start", 2, 2)].At + 1
	}},
	{"ended_before_repeated", "a retry began before its execution's last sign", func(w *testHistory) {
		w.Effects[w.line("start", 7, 1)].At = w.Effects[w.line("start", 6, 1)].At - 1
	}},
	{"session_one_at_a_time", "two executions of a session run at once", func(w *testHistory) {
		end, start := w.line("end", 3, 1), w.line("start", 4, 1)
		w.Effects[end], w.Effects[start] = w.Effects[start], w.Effects[end]
	}},
	{"session_unbroken_or_told", "a session's state is gone and nobody was told", func(w *testHistory) {
		w.Effects[w.line("start", 5, 1)].Lost = false
	}},
	{"session_unbroken_or_told", "a session begins in the middle", func(w *testHistory) {
		w.Effects[w.line("start", 3, 1)].Count = 2
		w.Effects[w.line("start", 4, 1)].Count = 3
	}},
	{"session_unbroken_or_told", "a kept session goes back behind what had ended", func(w *testHistory) {
		addKeptSession(w, messages.Completed)
	}},
	{"session_unbroken_or_told", "a kept session begins anew and is not told", func(w *testHistory) {
		addKeptSession(w, messages.Abandoned)
		w.Effects[w.line("start", 12, 1)].Count = 1
	}},
	{"session_epoch_one_worker", "two processes have one epoch", func(w *testHistory) {
		w.Effects[w.line("end", 5, 1)].Pid++
	}},
	{"retry_chain", "a retry is lost", func(w *testHistory) { w.at(8).RetriedAs = id(98) }},
	{"retry_chain", "a retry is made twice", func(w *testHistory) {
		moves(w.store(chaos.Stored{ID: id(20), Status: messages.Requested, Original: id(6), RetryCount: 1}), "place", "claim", "fail")
	}},
}

func TestAHistoryThatKeepsEveryPromise(t *testing.T) {
	t.Parallel()
	require.Empty(t, chaos.Check(&validHistory().History))
}

func TestEveryRuleFires(t *testing.T) {
	t.Parallel()
	fired := map[string]bool{}
	for _, m := range mutations {
		w := validHistory()
		m.mutate(w)
		found := chaos.Check(&w.History)
		require.Len(t, found, 1, "%s: %v", m.name, found)
		require.Equal(t, m.rule, found[0].Rule, m.name)
		require.NotEmpty(t, found[0].Trace, m.name)
		require.Contains(t, found[0].String(), found[0].Trace[0])
		fired[m.rule] = true
	}
	for _, rule := range chaos.Rules() {
		require.True(t, fired[rule], "no mutation breaks rule %s", rule)
	}
}

func TestParseEffects(t *testing.T) {
	t.Parallel()
	text := fmt.Sprintf("start %s 2 77 alice 3 5 1 900\nend %s 1 78 - 0 0 0 0\n", id(1), id(2))
	effects, err := chaos.ParseEffects(strings.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, []chaos.Effect{
		{Kind: "start", Execution: id(1), Attempt: 2, Pid: 77, Session: "alice", Epoch: 3, Count: 5, Lost: true, At: 900},
		{Kind: "end", Execution: id(2), Attempt: 1, Pid: 78},
	}, effects)
	for _, bad := range []string{"start", "dance " + id(1).String() + " 1 2 - 0 0 0 0", "start x 1 2 - 0 0 0 0", "end " + id(1).String() + " one 2 - 0 0 0 0", "end " + id(1).String() + " 1 2 - 0 0 0"} {
		_, err := chaos.ParseEffects(strings.NewReader(text + bad + "\n"))
		require.ErrorContains(t, err, "line 3", bad)
	}
}

// A writer that is killed leaves a part of its line, up to the end of a page of the file.
func TestParseEffectsOfAKilledWriter(t *testing.T) {
	t.Parallel()
	whole := fmt.Sprintf("tick %s 1 77 - 0 0 0 5\n", id(1))
	text := strings.Repeat(whole, 4096/len(whole))
	text += whole[:4096-len(text)]
	effects, err := chaos.ParseEffects(strings.NewReader(text + whole))
	require.NoError(t, err)
	require.Len(t, effects, 4096/len(whole)+1)
	_, err = chaos.ParseEffects(strings.NewReader(text[1:] + whole))
	require.Error(t, err, "torn anywhere else it is no killed writer's")
}

func FuzzParseEffects(f *testing.F) {
	f.Add(fmt.Sprintf("start %s 2 77 alice 3 5 1 7\n", id(1)))
	f.Add("end - 1 2 3 4 5 6 7\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		effects, err := chaos.ParseEffects(strings.NewReader(text))
		if err == nil {
			chaos.Check(&chaos.History{Effects: effects}) // must not panic
		}
	})
}

// addKeptSession adds a session whose state is stored after each run. It has a run that stored its state, a run that ended with the
// given status, and a run that continues from the first one.
func addKeptSession(w *testHistory, second messages.Status) {
	for i, count := range []int{1, 2, 2} {
		n, how := 10+i, "complete"
		if i == 1 && second == messages.Abandoned {
			how = "abandon"
		}
		e := w.submit(n, fmt.Sprintf("kept %d", n), messages.Completed, messages.Abandoned)
		e.Session = "k"
		moves(e, "place", "claim", how)
		w.effect("start", n, 1, "k", count, false)
		w.effect("end", n, 1, "k", count, false)
	}
}

// If a run ends together with its worker, it stores no state. The session continues from the state before that run, and nothing
// counts as lost.
func TestAKeptSessionContinuesFromItsStoredState(t *testing.T) {
	t.Parallel()
	w := validHistory()
	addKeptSession(w, messages.Abandoned)
	require.Empty(t, chaos.Check(&w.History))
}
