package storetest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/webhook"
	"github.com/troupe-run/troupe/store"
)

// hooked gives an execution a webhook that is told of these outcomes; none: all.
func hooked(url string, on ...messages.Status) func(e *messages.Execution) {
	return func(e *messages.Execution) { e.Webhook = &messages.Webhook{URL: url, On: on, Secret: "billing"} }
}

func (k *kit) hook(t *testing.T, id messages.ExecutionID) messages.WebhookRecord {
	r, err := k.Webhook(t.Context(), id)
	require.NoError(t, err)
	return r
}

func (k *kit) takeHooks(t *testing.T, destination string, limit int, lease time.Duration) []store.WebhookCall {
	calls, err := k.TakeWebhooks(t.Context(), []store.WebhookTake{{Destination: destination, Limit: limit}}, lease)
	require.NoError(t, err)
	return calls
}

// testWebhooks takes the webhook of an execution from its submission to its being told.
func testWebhooks(t *testing.T, k *kit) {
	const url = "https://Hooks.example/a?b=c"
	out := k.submit(t, ask(hooked(url, messages.Failed)), ask())
	e := out[0]
	require.True(t, e.Hooked)
	require.Nil(t, e.Webhook, "the execution does not carry it on")
	require.Equal(t, e, k.get(t, e.ID))
	r := k.hook(t, e.ID)
	require.Equal(t, messages.WebhookRecord{
		Execution: e.ID, Webhook: messages.Webhook{URL: url, On: []messages.Status{messages.Failed}, Secret: "billing"},
		Destination: "hooks.example:443", State: messages.WebhookWaiting,
	}, r)
	_, err := k.Webhook(t.Context(), out[1].ID)
	require.ErrorIs(t, err, store.ErrNotFound)
	due, err := k.DueDestinations(t.Context(), "", 10)
	require.NoError(t, err)
	require.Empty(t, due.Due, "nothing has ended")

	k.start(t, e)
	k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: failed(messages.Failed)})
	due, err = k.DueDestinations(t.Context(), "", 10)
	require.NoError(t, err)
	require.Equal(t, store.WebhookDestinations{Due: []string{"hooks.example:443"}}, due)
	require.Equal(t, messages.WebhookDue, k.hook(t, e.ID).State)

	calls := k.takeHooks(t, "hooks.example:443", 10, time.Hour)
	require.Len(t, calls, 1)
	require.Equal(t, messages.Failed, calls[0].Of.Status)
	require.Equal(t, messages.CodeActionError, calls[0].Of.Error.Code)
	require.Empty(t, calls[0].Of.Parameters)
	require.Equal(t, url, calls[0].URL)
	require.Empty(t, k.takeHooks(t, "hooks.example:443", 10, time.Hour), "it is taken")
	again := store.WebhookReport{Execution: e.ID, Claim: calls[0].Claim, State: messages.WebhookDue, After: 0, Tries: 1, Code: 500, Error: "answered 500" + strings.Repeat("\x00x", 600)}
	require.NoError(t, k.ReportWebhooks(t.Context(), []store.WebhookReport{again}))
	r = k.hook(t, e.ID)
	require.Equal(t, 1, r.Tries)
	require.Equal(t, 500, r.Code)
	require.LessOrEqual(t, len(r.Error), store.WebhookErrorMax)

	second := k.takeHooks(t, "hooks.example:443", 10, time.Hour)
	require.Len(t, second, 1)
	told := store.WebhookReport{Execution: e.ID, Claim: calls[0].Claim, State: messages.WebhookTold, Tries: 1, Code: 200}
	require.NoError(t, k.ReportWebhooks(t.Context(), []store.WebhookReport{told}))
	require.Equal(t, messages.WebhookDue, k.hook(t, e.ID).State, "who took it before changes nothing")
	told.Claim, told.Tries = second[0].Claim, 2
	require.NoError(t, k.ReportWebhooks(t.Context(), []store.WebhookReport{told}))
	r = k.hook(t, e.ID)
	require.Equal(t, messages.WebhookTold, r.State)
	require.Equal(t, 2, r.Tries)
	require.False(t, r.EndedAt.IsZero())
	require.Empty(t, r.Error)
	n, err := k.CountWebhooks(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
}

// testWebhookOutcomes checks which outcomes make a webhook due, whatever statement writes them.
func testWebhookOutcomes(t *testing.T, k *kit) {
	for name, c := range map[string]struct {
		on   []messages.Status
		end  func(e messages.Execution)
		want messages.WebhookState
	}{
		"completed": {nil, func(e messages.Execution) {
			k.start(t, e)
			k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: completed()})
		}, messages.WebhookDue},
		"with output": {[]messages.Status{messages.Completed}, func(e messages.Execution) {
			k.start(t, e)
			k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: completed(), Output: messages.Output{Stdout: []byte("x")}})
		}, messages.WebhookDue},
		"not asked for": {[]messages.Status{messages.Failed, messages.Abandoned}, func(e messages.Execution) {
			k.start(t, e)
			k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: completed()})
		}, messages.WebhookPassed},
		"crashed": {nil, func(e messages.Execution) {
			k.start(t, e)
			k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: crashed()})
		}, messages.WebhookDue},
		"in a session": {nil, func(messages.Execution) {
			e := k.submit(t, ask(inSession("s", messages.AffinityStrict), hooked("https://h.example/")))[0]
			k.start(t, e)
			k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: completed()})
			require.Equal(t, messages.WebhookDue, k.hook(t, e.ID).State)
		}, messages.WebhookWaiting},
		"cancelled while it waits": {[]messages.Status{messages.Cancelled}, func(e messages.Execution) {
			k.applied(t, &store.Cancel{ID: e.ID, By: "test"})
		}, messages.WebhookDue},
		"cancelled while it runs": {[]messages.Status{messages.Cancelled}, func(e messages.Execution) {
			k.start(t, e)
			k.applied(t, &store.Cancel{ID: e.ID, By: "test"})
			require.Equal(t, messages.WebhookWaiting, k.hook(t, e.ID).State)
			k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: failed(messages.Failed)})
		}, messages.WebhookDue},
	} {
		e := k.submit(t, ask(hooked("https://h.example/", c.on...)))[0]
		c.end(e)
		require.Equal(t, c.want, k.hook(t, e.ID).State, name)
	}
	claimed := ask(hooked("https://h.example/claimed"))
	place := k.place(claimed.ID, 0, 1)
	place.Generation = 1
	out, err := k.SubmitPlaced(t.Context(), []messages.Execution{claimed}, []*store.Place{place})
	require.NoError(t, err)
	require.Equal(t, messages.Running, out[0].Execution.Status)
	require.True(t, out[0].Execution.Hooked)
	k.applied(t, &store.Finish{ID: claimed.ID, Attempt: 1, Outcome: completed()})
	require.Equal(t, messages.WebhookDue, k.hook(t, claimed.ID).State, "claimed as it was stored")
}

// testWebhookRetries checks that the last execution of a chain is told, and a retry that was asked for again.
func testWebhookRetries(t *testing.T, k *kit) {
	e := k.submit(t, ask(hooked("https://h.example/x")))[0]
	k.start(t, e)
	next := e
	next.ID, next.Original, next.RetryCount = messages.NewExecutionID(), e.ID, 1
	k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: failed(messages.Failed), Retry: &next})
	require.Equal(t, messages.WebhookPassed, k.hook(t, e.ID).State, "its retry is told")
	r := k.hook(t, next.ID)
	require.Equal(t, messages.WebhookWaiting, r.State)
	require.Equal(t, "https://h.example/x", r.URL)
	require.Equal(t, "billing", r.Secret)
	require.True(t, k.get(t, next.ID).Hooked)
	k.start(t, k.get(t, next.ID))
	k.applied(t, &store.Finish{ID: next.ID, Attempt: 1, Outcome: failed(messages.Failed)})
	require.Equal(t, messages.WebhookDue, k.hook(t, next.ID).State)

	asked := next
	asked.ID, asked.RetryCount = messages.NewExecutionID(), 2
	made, err := k.Retry(t.Context(), next.ID, asked, "test")
	require.NoError(t, err)
	require.True(t, made.Execution.Hooked)
	require.Equal(t, messages.WebhookDue, k.hook(t, next.ID).State, "what was due stays due")
	require.Equal(t, messages.WebhookWaiting, k.hook(t, asked.ID).State)
	plain := k.bring(t, messages.Failed)
	asked = plain
	asked.ID = messages.NewExecutionID()
	_, err = k.Retry(t.Context(), plain.ID, asked, "test")
	require.NoError(t, err)
	_, err = k.Webhook(t.Context(), asked.ID)
	require.ErrorIs(t, err, store.ErrNotFound)
}

// endHooked stores ended executions with a webhook.
func (k *kit) endHooked(t *testing.T, url string, n int) []messages.Execution {
	out := k.submit(t, many(n, hooked(url))...)
	k.end(t, out)
	return out
}

// testWebhookTaking checks that rows are taken by destination, once, and again after the lease.
func testWebhookTaking(t *testing.T, k *kit) {
	for i := range 7 {
		k.endHooked(t, fmt.Sprintf("https://h%d.example/", i), 3)
	}
	var names []string
	after, pages := "", 0
	for {
		page, err := k.DueDestinations(t.Context(), after, 3)
		require.NoError(t, err)
		names, pages = append(names, page.Due...), pages+1
		if after = page.Next; after == "" {
			break
		}
	}
	require.Equal(t, 3, pages)
	require.Len(t, names, 7)
	require.IsIncreasing(t, names)

	seen := map[messages.ExecutionID]bool{}
	for range 2 {
		calls, err := k.TakeWebhooks(t.Context(), []store.WebhookTake{{Destination: names[0], Limit: 2}, {Destination: names[1], Limit: 1}, {Destination: "none.example:443", Limit: 5}}, time.Hour)
		require.NoError(t, err)
		for _, c := range calls {
			require.False(t, seen[c.Execution])
			seen[c.Execution] = true
		}
	}
	require.Len(t, seen, 2+1+1+1)
	calls := k.takeHooks(t, names[2], 3, time.Millisecond)
	require.Len(t, calls, 3)
	require.Eventually(t, func() bool { return len(k.takeHooks(t, names[2], 3, time.Hour)) == 3 }, 10*time.Second, 5*time.Millisecond,
		"who took them has gone")
}

// testWebhookOwners checks that the rows of one host are taken apart for each who submits, those of retries too.
func testWebhookOwners(t *testing.T, k *kit) {
	by := func(name string) []messages.ExecutionID {
		out := k.submit(t, many(2, func(e *messages.Execution) {
			hooked("https://h.example/" + name)(e)
			e.CreatedBy = name
		})...)
		k.end(t, out)
		return []messages.ExecutionID{out[0].ID, out[1].ID}
	}
	ann, bob := by("ann"), by("bob")
	due, err := k.DueDestinations(t.Context(), "", 10)
	require.NoError(t, err)
	require.Equal(t, []string{webhook.Of("h.example:443", "ann"), webhook.Of("h.example:443", "bob")}, due.Due)
	for i, of := range [][]messages.ExecutionID{ann, bob} {
		var taken []messages.ExecutionID
		for _, c := range k.takeHooks(t, due.Due[i], 10, time.Hour) {
			require.Equal(t, due.Due[i], c.Destination)
			taken = append(taken, c.Execution)
		}
		require.ElementsMatch(t, of, taken)
	}
}

// testWebhookRaces checks that of many takers at once each row has one, also of rows that were reported as due again meanwhile.
func testWebhookRaces(t *testing.T, k *kit) {
	const rows, takers, tries = 60, 8, 3
	k.endHooked(t, "https://h.example/", rows)
	var mu sync.Mutex
	taken := map[string]int{}
	done := 0
	var group sync.WaitGroup
	for range takers {
		group.Go(func() {
			for idle := 0; idle < 200; {
				calls, err := k.TakeWebhooks(t.Context(), []store.WebhookTake{{Destination: "h.example:443", Limit: 5}}, time.Hour)
				if err != nil {
					t.Errorf("take: %v", err)
					return
				}
				var reports []store.WebhookReport
				mu.Lock()
				for _, c := range calls {
					taken[fmt.Sprint(c.Execution, c.Claim)]++
					r := store.WebhookReport{Execution: c.Execution, Claim: c.Claim, State: messages.WebhookDue, Tries: c.Tries + 1}
					if r.Tries == tries {
						r.State = messages.WebhookTold
						done++
					}
					reports = append(reports, r)
				}
				all := done == rows
				mu.Unlock()
				if err := k.ReportWebhooks(t.Context(), reports); err != nil {
					t.Errorf("report: %v", err)
					return
				}
				if idle++; len(calls) > 0 {
					idle = 0
				}
				if all {
					return
				}
			}
		})
	}
	group.Wait()
	require.Equal(t, rows, done)
	require.Len(t, taken, rows*tries)
	for claim, n := range taken {
		require.Equal(t, 1, n, claim)
	}
	counts, err := k.CountWebhooks(t.Context())
	require.NoError(t, err)
	require.Zero(t, counts)
}

// testWebhookLong checks that a result that a notice does not hold is left out.
func testWebhookLong(t *testing.T, k *kit) {
	for _, n := range []int{100, messages.NoticeResultMax - 2, messages.NoticeResultMax} {
		url := fmt.Sprintf("https://n%d.example/", n)
		e := k.bring(t, messages.Running, hooked(url))
		result := []byte(`"` + strings.Repeat("x", n) + `"`)
		k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: messages.Outcome{Status: messages.Completed, Result: result}})
		calls := k.takeHooks(t, fmt.Sprintf("n%d.example:443", n), 1, time.Hour)
		require.Len(t, calls, 1)
		if long := n == messages.NoticeResultMax; long {
			require.True(t, calls[0].Truncated)
			require.Empty(t, calls[0].Of.Result)
		} else {
			require.False(t, calls[0].Truncated)
			require.Equal(t, string(result), string(calls[0].Of.Result))
		}
	}
}

// testWebhooksGivenUp gives webhooks up, lists them, and sends one again.
func testWebhooksGivenUp(t *testing.T, k *kit) {
	out := k.endHooked(t, "https://h.example/", 5)
	n, err := k.ExpireWebhooks(t.Context(), time.Hour, "too old", 10)
	require.NoError(t, err)
	require.Zero(t, n)
	counts, err := k.CountWebhooks(t.Context())
	require.NoError(t, err)
	require.Equal(t, 5, counts.Due)
	require.Less(t, counts.Late, time.Minute)
	taken := k.takeHooks(t, "h.example:443", 1, time.Hour)
	require.Eventually(t, func() bool {
		n, err = k.ExpireWebhooks(t.Context(), time.Millisecond, "too old", 10)
		require.NoError(t, err)
		return n == 4
	}, 10*time.Second, 5*time.Millisecond, "what is being called stays")
	require.NoError(t, k.ReportWebhooks(t.Context(), []store.WebhookReport{{Execution: taken[0].Execution, Claim: taken[0].Claim, State: messages.WebhookGivenUp, Tries: 1, Code: 410, Error: "gone"}}))
	counts, err = k.CountWebhooks(t.Context())
	require.NoError(t, err)
	require.Equal(t, store.WebhookCounts{GivenUp: 5}, counts)

	var got []messages.ExecutionID
	q := store.WebhookQuery{State: messages.WebhookGivenUp, Limit: 2}
	for {
		page, err := k.ListWebhooks(t.Context(), q)
		require.NoError(t, err)
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			require.NotEmpty(t, r.Error)
			got = append(got, r.Execution)
		}
		q.After = page[len(page)-1]
	}
	var want []messages.ExecutionID
	for _, e := range out {
		want = append(want, e.ID)
	}
	require.ElementsMatch(t, want, got)

	r, err := k.RepeatWebhook(t.Context(), got[0])
	require.NoError(t, err)
	require.Equal(t, messages.WebhookDue, r.State)
	require.Zero(t, r.Tries)
	_, err = k.RepeatWebhook(t.Context(), got[0])
	require.ErrorIs(t, err, store.ErrInvalid)
	_, err = k.RepeatWebhook(t.Context(), messages.NewExecutionID())
	require.ErrorIs(t, err, store.ErrNotFound)
	require.Len(t, k.takeHooks(t, "h.example:443", 10, time.Hour), 1)
	_, err = k.ListWebhooks(t.Context(), store.WebhookQuery{State: messages.WebhookTold})
	require.ErrorIs(t, err, store.ErrInvalid)
}

// testWebhooksOfATime checks that webhooks are listed by the time since when they are due.
func testWebhooksOfATime(t *testing.T, k *kit) {
	for range 3 {
		k.endHooked(t, "https://h.example/", 3)
	}
	all, err := k.ListWebhooks(t.Context(), store.WebhookQuery{State: messages.WebhookDue})
	require.NoError(t, err)
	require.Len(t, all, 9)
	require.True(t, all[8].Since.After(all[0].Since))
	moments := []time.Time{{}, all[0].Since.Add(-time.Hour), all[8].Since.Add(time.Hour)}
	for i := range all {
		moments = append(moments, all[i].Since)
	}
	for _, from := range moments {
		for _, to := range moments {
			var want, got []messages.WebhookRecord
			for i := range all {
				if at := all[i].Since; !at.Before(from) && (to.IsZero() || at.Before(to)) {
					want = append(want, all[i])
				}
			}
			for q := (store.WebhookQuery{State: messages.WebhookDue, From: from, To: to, Limit: 2}); ; {
				page, err := k.ListWebhooks(t.Context(), q)
				require.NoError(t, err)
				if len(page) == 0 {
					break
				}
				got, q.After = append(got, page...), page[len(page)-1]
			}
			require.Equal(t, want, got, "from %s to %s", from, to)
		}
	}
}

// testWebhooksPurged checks that a webhook is deleted with its execution, and that one which cannot be called is refused.
func testWebhooksPurged(t *testing.T, k *kit) {
	out := k.endHooked(t, "https://h.example/", 3)
	for {
		purged, err := k.Purge(t.Context(), store.Purge{FinishedBefore: time.Now().Add(time.Hour)})
		require.NoError(t, err)
		if !purged.More {
			break
		}
	}
	_, err := k.Webhook(t.Context(), out[0].ID)
	require.ErrorIs(t, err, store.ErrNotFound)
	require.Empty(t, k.takeHooks(t, "h.example:443", 10, time.Hour))
	for _, w := range []messages.Webhook{{URL: ""}, {URL: "ftp://h"}, {URL: "https://u:p@h/"}, {URL: "https://h/", Secret: strings.Repeat("x", 65)}} {
		_, err := k.Submit(t.Context(), []messages.Execution{ask(func(e *messages.Execution) { e.Webhook = &w })})
		require.ErrorIs(t, err, store.ErrInvalid)
	}
}
