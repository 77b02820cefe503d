// Package storetest is the conformance suite of the store port. Every adapter runs it on its real server. It uses only
// the port, so it also holds for a store that other nodes use at the same time. Each adapter's own tests check the
// rest: durability after a kill, locks, full disks, schema versions.
package storetest

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Open returns an empty store that closes with the test.
type Open func(t *testing.T) store.Store

// suite has the tests that every store must pass.
var suite = []named{
	{"submit returns what it stored", testSubmit},
	{"submit keeps every field", testSubmitFields},
	{"a claim whose binding has ended", testClaimUnbound},
	{"a claim whose session was bound anew", testClaimRebound},
	{"submitted and placed at once", testSubmitPlaced},
	{"placements that cannot be submitted", testSubmitPlacedRefused},
	{"submitted and claimed at once", testSubmitClaimed},
	{"submitted with the claim of a fenced node", testSubmitClaimedFenced},
	{"submit keys", testKeys},
	{"submit is all or nothing", testSubmitAllOrNothing},
	{"submit may be repeated", testSubmitRepeated},
	{"straight path", testStraightPath},
	{"handed over directly", testDirect},
	{"handed over directly to several", testDirectRaces},
	{"every change from every status", testEveryChange},
	{"races have one winner", testRaces},
	{"late outcomes", testLateOutcomes},
	{"retry", testRetry},
	{"times of a retry", testRetryTimes},
	{"crashes over a chain", testCrashes},
	{"one retry", testOneRetry}, {"events name who", testEventsNameWho},
	{"key owners", testKeyOwners}, {"retry key owners", testRetryKeyOwners},
	{"one retry of many callers", testRetryRaces},
	{"retries that are refused", testRetryRefused},
	{"rollups", testRollups},
	{"rollups: folds", testRollupFolds},
	{"rollups: hours", testRollupHours},
	{"rollups: fold races", testRollupFoldRaces},
	{"keyframes", testKeyframes},
	{"worker events of a time", testWorkerEventsBetween},
	{"the journal of workers", testWorkerJournal},
	{"the journal of workers: pages", testWorkerJournalPages},
	{"the journal of workers: starts that failed", testWorkerJournalStarts},
	{"executions counted by when they were requested", testCountRequested},
	{"a count of many executions", testCountOfMany},
	{"executions counted that were purged", testCountPurged},
	{"operations", testOperations},
	{"operations are taken over", testOperationsTaken},
	{"operations are stopped", testOperationsStopped},
	{"operations are bounded", testOperationsBounded},
	{"operations of a time", testOperationsOfATime},
	{"operations that are refused", testOperationsRefused},
	{"a list between two bounds", testListBetween},
	{"cancel", testCancel},
	{"rescue", testRescue},
	{"bytes", testBytes},
	{"one bad row", testOneBadRow},
	{"a refused change in a new pool", testRefusedInANewPool},
	{"more bytes than one transaction", testManyBytes},
	{"events", testEvents}, {"stale events", testStaleEvents}, {"late failures", testLateFailures},
	{"events of a time", testEventsBetween},
	{"sessions bind", testSessionBind},
	{"sessions take turns", testSessionTurns},
	{"session epochs", testSessionEpochs},
	{"session loss untold", testSessionLossUntold},
	{"bound sessions", testBoundSessions},
	{"sessions by prefix", testSessionsByPrefix},
	{"snapshots", testSnapshots},
	{"snapshot runs", testSnapshotRuns},
	{"tries of a state", testStateTries},
	{"session started", testSessionStarted},
	{"due order", testDueOrder},
	{"due pages", testDuePages},
	{"due heads", testDueHeads},
	{"due times", testDueTimes},
	{"due backed off", testDueBackedOff},
	{"due without an affinity", testDueNoAffinity},
	{"sessions keep their order", testSessionOrder},
	{"overdue", testOverdue},
	{"orphans", testOrphans},
	{"live", testLive},
	{"list", testList},
	{"list of what ended", testListEnded},
	{"list by alternatives", testListAlternatives},
	{"list turned round", testListTurned},
	{"list by text", testListText},
	{"list long errors", testListLongErrors},
	{"list until a time", testListUntil},
	{"list by text in parameters", testListParameters},
	{"chain", testChain},
	{"depths", testDepths},
	{"depths of what is not due", testDepthsNotDue},
	{"nodes", testNodes},
	{"pool cordons", testPoolCordons},
	{"routers", testRouters},
	{"routers are passed on", testRoutersPassed},
	{"workers", testWorkers},
	{"heartbeats while draining", testDrainingHeartbeats},
	{"workers saved as the node drains", testWorkersSavedAsTheNodeDrains},
	{"dead letters", testDeadLetters},
	{"many dead letters", testManyDeadLetters},
	{"dead letters are resolved", testDeadLettersResolved},
	{"large dead letters", testLargeDeadLetters},
	{"dead letter keys", testDeadLetterKeys},
	{"notices", testNotices},
	{"notices of retries", testNoticeRetry},
	{"notices are whole", testNoticesWhole},
	{"notices come in pages", testNoticesPages},
	{"notices with long results", testNoticesBytes},
	{"notices have one teller", testNoticesHeld},
	{"notices that are put off", testNoticesLater},
	{"notices of what was purged", testNoticesPurged},
	{"notices that no queue gets", testNoticesUnheard},
	{"reads are weighed", testWeight},
	{"lists are bounded in bytes", testListBytes},
	{"webhooks", testWebhooks},
	{"webhooks of every outcome", testWebhookOutcomes},
	{"webhooks of retries", testWebhookRetries},
	{"webhooks are taken by destination", testWebhookTaking},
	{"webhooks of several who submit", testWebhookOwners},
	{"webhooks of many takers", testWebhookRaces},
	{"webhooks with long results", testWebhookLong},
	{"webhooks that are given up", testWebhooksGivenUp},
	{"webhooks of a time", testWebhooksOfATime},
	{"webhooks of what was purged", testWebhooksPurged},
	{"purge", testPurge},
	{"purge keeps sessions of what waits", testPurgeKeepsSessions},
	{"a purge passes large sessions", testPurgePassesLargeSessions},
	{"journal", testJournal},
	{"journal entries that are refused", testJournalRefused},
	{"journal pages", testJournalPages},
	{"journal walks are bounded", testJournalWalk},
	{"events of ended placements", testEndedPlacements},
	{"actions and clock", testActionsAndClock},
	{"histories", testHistories},
	{"histories as they are decided", testDecided},
}

// Run runs the whole suite against stores that open makes.
func Run(t *testing.T, open Open, options ...Option) {
	tests := slices.Clone(suite)
	for _, more := range options {
		tests = append(tests, more()...)
	}
	runAll(t, open, tests)
}

// changes names the tests of what is changed in executions, and of what is recorded of it.
var changes = map[string]bool{
	"submit keeps every field": true, "submitted and placed at once": true, "submitted and claimed at once": true, "submit may be repeated": true,
	"straight path": true, "handed over directly": true, "every change from every status": true, "races have one winner": true, "late outcomes": true,
	"retry": true, "crashes over a chain": true, "events name who": true, "one retry of many callers": true, "cancel": true, "rescue": true,
	"one bad row": true, "events": true, "sessions bind": true, "session epochs": true, "session loss untold": true, "session started": true, "due order": true, "depths": true,
	"events of ended placements": true, "histories": true, "histories as they are decided": true,
}

// RunChanges runs only the tests of the suite that change executions, for a setting that concerns nothing else.
func RunChanges(t *testing.T, open Open) {
	var tests []named
	for _, c := range suite {
		if changes[c.name] {
			tests = append(tests, c)
		}
	}
	require.Len(t, tests, len(changes), "a name that the suite does not have")
	runAll(t, open, tests)
}

// runAll runs tests, each on a store of its own.
func runAll(t *testing.T, open Open, tests []named) {
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, newKit(t, open(t)))
		})
	}
}

// kit is a store with one live node.
type kit struct {
	store.Store
	inc messages.Incarnation
}

func newKit(t *testing.T, s store.Store) *kit {
	k := &kit{Store: s, inc: messages.NewIncarnation()}
	require.NoError(t, s.Join(t.Context(), store.Node{Incarnation: k.inc, Name: "n", Version: "1"}, time.Hour))
	return k
}

const pool = "p"

func (k *kit) key(slot int) messages.WorkerKey {
	return messages.WorkerKey{Incarnation: k.inc, Pool: pool, Slot: messages.Slot(slot)}
}

func workerID(slot int) messages.WorkerID {
	return messages.NewWorkerID("n", pool, messages.Slot(slot))
}

// ask returns one request, changed by the given functions.
func ask(change ...func(e *messages.Execution)) messages.Execution {
	e := messages.Execution{
		ID: messages.NewExecutionID(), Action: "core.echo", Version: "1", Pool: pool, Priority: messages.PriorityNormal,
		Parameters: json.RawMessage(`{"a": 1}`), Timeout: time.Minute,
	}
	for _, c := range change {
		c(&e)
	}
	return e
}

func inSession(session string, a messages.Affinity) func(e *messages.Execution) {
	return func(e *messages.Execution) { e.Session, e.Affinity = session, a }
}

func (k *kit) submit(t require.TestingT, e ...messages.Execution) []messages.Execution {
	out, err := k.Submit(ctx(t), e)
	require.NoError(t, err)
	require.Len(t, out, len(e))
	stored := make([]messages.Execution, len(out))
	for i := range out {
		require.False(t, out[i].Existing)
		stored[i] = out[i].Execution
	}
	return stored
}

func (k *kit) apply(t require.TestingT, c ...store.Change) []store.Result {
	out, err := k.Apply(ctx(t), c)
	require.NoError(t, err)
	require.Len(t, out, len(c))
	return out
}

// applied makes one change that must take effect.
func (k *kit) applied(t require.TestingT, c store.Change) store.Result {
	r := k.apply(t, c)[0]
	require.Equal(t, store.Applied, r.Verdict, "%s: %v", c.Name(), r.Err)
	return r
}

func (k *kit) get(t require.TestingT, id messages.ExecutionID) messages.Execution {
	e, err := k.Get(ctx(t), id)
	require.NoError(t, err)
	return e
}

func (k *kit) place(id messages.ExecutionID, attempt messages.Attempt, slot int) *store.Place {
	return &store.Place{ID: id, Attempt: attempt, Worker: k.key(slot), WorkerID: workerID(slot), PlacedBy: k.inc, ClaimWithin: time.Minute}
}

func (k *kit) claim(id messages.ExecutionID, attempt messages.Attempt, slot int) *store.Claim {
	return &store.Claim{ID: id, Attempt: attempt, Worker: k.key(slot), Generation: 1}
}

func completed() messages.Outcome {
	return messages.Outcome{Status: messages.Completed, Result: json.RawMessage(`{"ok":true}`)}
}

func failed(status messages.Status) messages.Outcome {
	return messages.Outcome{Status: status, Error: &messages.Error{Code: messages.CodeActionError, Message: "no"}}
}

// crashed returns the outcome of a run whose worker ended with it.
func crashed() messages.Outcome {
	return messages.Outcome{Status: messages.Abandoned, Error: &messages.Error{
		Code: messages.CodeWorkerLost, Message: "exit status 3", WorkerFault: true,
	}}
}

func outcome(status messages.Status) messages.Outcome {
	if status == messages.Completed {
		return completed()
	}
	return failed(status)
}

// bring submits an execution and takes it to a status. Its attempt is then 1, or 0 if it was never placed.
func (k *kit) bring(t require.TestingT, to messages.Status, change ...func(e *messages.Execution)) messages.Execution {
	e := k.submit(t, ask(change...))[0]
	if to == messages.Requested {
		return e
	}
	k.applied(t, k.place(e.ID, 0, 1))
	if to == messages.Scheduled {
		return k.get(t, e.ID)
	}
	k.applied(t, k.claim(e.ID, 1, 1))
	switch {
	case to == messages.Cancelling:
		k.applied(t, &store.Cancel{ID: e.ID, By: "test"})
	case to.Terminal():
		k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: outcome(to)})
	}
	e = k.get(t, e.ID)
	require.Equal(t, to, e.Status)
	return e
}

// start takes a requested execution to running.
func (k *kit) start(t require.TestingT, e messages.Execution) {
	k.applied(t, k.place(e.ID, e.Attempt, 1))
	k.applied(t, k.claim(e.ID, e.Attempt+1, 1))
}

// reachable returns the statuses that changes lead to. Routers place in one statement, so scheduling is not one.
func reachable() []messages.Status {
	var out []messages.Status
	for _, s := range messages.Statuses() {
		if s != messages.Scheduling {
			out = append(out, s)
		}
	}
	return out
}
