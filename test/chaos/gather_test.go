package chaos_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/test/chaos"
)

// settled waits until all executions have ended, including retries that wait for their time. It names the executions that have
// not, each with the node's reason.
func (n *node) settled(limit time.Duration) {
	n.t.Helper()
	var left api.ExecutionList
	end := time.Now().Add(limit)
	for time.Now().Before(end) {
		left = api.ExecutionList{}
		n.get("/api/v1/executions?limit=5&status=requested,scheduling,scheduled,running,cancelling", &left)
		if len(left.Executions) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	for i := range left.Executions {
		e := stored(&left.Executions[i])
		var why view.Explanation
		n.get("/api/v1/executions/"+e.ID.String()+"/why", &why)
		require.NoError(n.t, n.readDetail(&e))
		n.t.Errorf("%s %s is still %s on %s: %s %s\n%v", e.ID, e.Action, e.Status, left.Executions[i].Worker, why.Reason, why.Message, e.Events)
	}
	require.FailNowf(n.t, "executions without an outcome", "not settled within %s", limit)
}

// history gathers the records of a run: the caller's log, every stored execution with its events, and the side effects.
func (n *node) history(c *caller) *chaos.History {
	n.t.Helper()
	h := &chaos.History{Calls: c.calls, Sparse: !n.keepsAllEvents()}
	cursor := ""
	for {
		var page api.ExecutionList
		n.get("/api/v1/executions?limit=1000&cursor="+url.QueryEscape(cursor), &page)
		for i := range page.Executions {
			h.Executions = append(h.Executions, stored(&page.Executions[i]))
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	n.readDetails(h.Executions)
	file, err := os.Open(n.effects)
	require.NoError(n.t, err)
	defer file.Close()
	h.Effects, err = chaos.ParseEffects(file)
	require.NoError(n.t, err)
	return h
}

func stored(v *form.ExecutionView) chaos.Stored {
	e := chaos.Stored{
		Result: v.Result, ID: v.ID, Key: v.IdempotencyKey, Action: v.ActionRef, Session: v.Session, Status: v.Status, Attempt: v.Attempt, Requested: v.RequestedAt,
		Worker: string(v.Worker), Scheduled: v.ScheduledAt,
		Idempotent: v.Idempotent, Original: v.Original, RetriedAs: v.RetriedAs, RetryCount: v.RetryCount,
		Traced: strings.HasPrefix(v.ActionRef, "chaos."),
	}
	if len(e.Result) > shortResult {
		e.Result = signature(e.Result)
	}
	if v.Error != nil {
		e.Code = v.Error.Code
	}
	return e
}

// shortResult is the longest result that a history has whole.
const shortResult = 64 << 10

// signature is the part of a result that names its execution and attempt.
func signature(result json.RawMessage) json.RawMessage {
	var by struct {
		Execution messages.ExecutionID `json:"execution"`
		Attempt   messages.Attempt     `json:"attempt"`
	}
	if json.Unmarshal(result, &by) != nil {
		return nil // the rules report it as a wrong result
	}
	short, err := json.Marshal(by)
	if err != nil {
		return nil
	}
	return short
}

// readDetails adds what lists do not include: results, errors and events.
func (n *node) readDetails(executions []chaos.Stored) {
	n.t.Helper()
	const readers = 4
	var wait sync.WaitGroup
	failures := make([]error, readers)
	for r := range readers {
		wait.Go(func() {
			for i := r; i < len(executions) && failures[r] == nil; i += readers {
				failures[r] = n.readDetail(&executions[i])
			}
		})
	}
	wait.Wait()
	for _, err := range failures {
		require.NoError(n.t, err)
	}
}

func (n *node) readDetail(e *chaos.Stored) error {
	path := "/api/v1/executions/" + e.ID.String()
	var whole form.ExecutionView
	if err := n.client.Load().Get(n.t.Context(), path, &whole); err != nil {
		return fmt.Errorf("read %s: %w", e.ID, err)
	}
	*e = stored(&whole)
	var events api.EventsView
	if err := n.client.Load().Get(n.t.Context(), path+"/events", &events); err != nil {
		return fmt.Errorf("read the events of %s: %w", e.ID, err)
	}
	e.Events = events.Events
	return nil
}

// verdict checks a history and fails the test with each violation.
func (n *node) verdict(h *chaos.History) {
	n.t.Helper()
	found := chaos.Check(h)
	const shown = 20
	for _, v := range found[:min(shown, len(found))] {
		n.t.Error(v)
	}
	require.Empty(n.t, len(found), "violations")
	outcomes := map[messages.Status]int{}
	for i := range h.Executions {
		outcomes[h.Executions[i].Status]++
	}
	n.t.Logf("executions %d, outcomes %v, effects %d, violations 0", len(h.Executions), outcomes, len(h.Effects))
}
