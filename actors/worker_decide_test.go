package actors

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/store"
)

// aheads is a queue whose placements may be claimed so far ahead.
func aheads(n ...int) []queued {
	var q []queued
	for _, ahead := range n {
		q = append(q, queued{Placement: messages.Placement{Execution: messages.NewExecutionID(), Attempt: 1}, ahead: ahead})
	}
	return q
}

// paced is a worker's pace after runs of so long, where a claim takes 20 ms.
func paced(runs ...time.Duration) *pace {
	p := &pace{}
	for _, took := range runs {
		p.ran(took)
	}
	p.claimed(20 * time.Millisecond)
	return p
}

func TestHowMuchAWorkerClaims(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	none, tiny, some, long := paced(), paced(0, 0), paced(40*ms, 41*ms), paced(150*ms, 160*ms)
	for name, c := range map[string]struct {
		claimable
		want  int
		again time.Duration
	}{
		"nothing waits":                  {claimable: claimable{pace: tiny, free: true, takes: true, left: -1}},
		"one for a free slot":            {claimable{delivered: aheads(1, 1), pace: tiny, free: true, takes: true, left: -1}, 1, 0},
		"some ahead behind it":           {claimable{delivered: aheads(8, 8, 8), pace: tiny, free: true, takes: true, left: -1}, 3, 0},
		"as many as each allows":         {claimable{delivered: aheads(3, 3, 3, 3), pace: tiny, free: true, takes: true, left: -1}, 3, 0},
		"up to one that stays alone":     {claimable{delivered: aheads(8, 1, 8), pace: tiny, free: true, takes: true, left: -1}, 1, 0},
		"what was claimed has not begun": {claimable{delivered: aheads(8), pace: tiny, claims: 1, free: true, takes: true, left: -1}, 0, 0},
		"a group at a time":              {claimable{delivered: aheads(8), pace: tiny, claims: 1, runs: true, left: -1}, 0, 0},
		"not by a worker that is ill":    {claimable{delivered: aheads(8), pace: tiny, free: true, left: -1}, 0, 0},
		"not while it is to hold":        {claimable{delivered: aheads(8, 8), pace: tiny, free: true, takes: true, hold: true, left: -1}, 0, 0},
		"nor behind a run then":          {claimable{delivered: aheads(8), pace: some, hold: true, runs: true, ran: 9 * ms, left: -1}, 0, 0},
		"ahead behind a short run":       {claimable{delivered: aheads(2, 2, 2), pace: tiny, runs: true, left: -1}, 2, 0},
		"not what stays alone":           {claimable{delivered: aheads(1, 2), pace: tiny, runs: true, left: -1}, 0, 0},
		"no more than may still run":     {claimable{delivered: aheads(8, 8, 8), pace: tiny, free: true, takes: true, left: 2}, 2, 0},
		"none behind the last run":       {claimable{delivered: aheads(8, 8), pace: tiny, runs: true, left: 0}, 0, 0},
		"while the finish is written":    {claimable{delivered: aheads(8, 8), pace: some, left: -1}, 1, 10 * ms},
		"not behind the first run":       {claimable{delivered: aheads(8), pace: none, runs: true, left: -1}, 0, 0},
		"not ahead with the first run":   {claimable{delivered: aheads(8, 8), pace: none, free: true, takes: true, left: -1}, 1, 0},
		"shortly before the end":         {claimable{delivered: aheads(8, 8), pace: some, runs: true, ran: 10 * ms, left: -1}, 1, 40 * ms},
		"not before that":                {claimable{delivered: aheads(8, 8), pace: some, runs: true, ran: 9 * ms, left: -1}, 0, ms},
		"behind what is claimed":         {claimable{delivered: aheads(8), pace: some, claims: 1, runs: true, ran: 9 * ms, left: -1}, 0, 41 * ms},
		"and when that is due":           {claimable{delivered: aheads(8), pace: some, claims: 1, runs: true, ran: 50 * ms, left: -1}, 1, 0},
		"never more than eight":          {claimable{delivered: aheads(8), pace: some, claims: 8, runs: true, ran: 100 * ms, left: -1}, 0, 0},
		"early in a long run":            {claimable{delivered: aheads(8), pace: long, runs: true, ran: 10 * ms, left: -1}, 0, 110 * ms},
		"at its end":                     {claimable{delivered: aheads(8), pace: long, runs: true, ran: 120 * ms, left: -1}, 1, 0},
		"not behind one that is late":    {claimable{delivered: aheads(8), pace: long, runs: true, ran: 250 * ms, left: -1}, 0, 0},
		"nor behind a late short one":    {claimable{delivered: aheads(8), pace: tiny, runs: true, ran: 100 * ms, left: -1}, 0, 0},
		"not where runs differ":          {claimable{delivered: aheads(8), pace: paced(10*ms, 60*ms), runs: true, ran: 10 * ms, left: -1}, 0, 0},
	} {
		n, again := c.count()
		require.Equal(t, c.want, n, name)
		require.Equal(t, c.again, again, name)
	}
}

// A claim is made as long before it is needed as the slowest one of late took, and half as long again, within 20 to 50 ms.
func TestHowEarlyAClaimIs(t *testing.T) {
	t.Parallel()
	p := &pace{}
	for _, c := range []struct{ took, want time.Duration }{
		{4 * time.Millisecond, leadMin}, {16 * time.Millisecond, 24 * time.Millisecond},
		{0, 21 * time.Millisecond}, {time.Second, leadMax}, {0, leadMax},
	} {
		p.claimed(c.took)
		require.Equal(t, c.want, p.lead())
	}
	for range 100 {
		p.claimed(0)
	}
	require.Equal(t, leadMin, p.lead(), "one slow claim is forgotten")
}

// The last eight runs count, and one of them may take longer.
func TestPaceOfRuns(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	p := &pace{}
	require.False(t, p.steady, "nothing is known")
	for i, c := range []struct {
		took   time.Duration
		steady bool
	}{
		{time.Second, true},
		{10 * ms, false}, {20 * ms, false}, {30 * ms, false}, {40 * ms, false}, {50 * ms, false}, {20 * ms, false},
		{20 * ms, true}, // one of eight
		{60 * ms, true}, // the first is forgotten
		{50 * ms, true}, // and 10 ms are
		{90 * ms, true},
		{70 * ms, false}, // two of eight
	} {
		p.ran(c.took)
		require.Equal(t, c.steady, p.steady, "run %d", i)
	}
	require.Equal(t, 20*ms, p.shortest)
	require.False(t, p.late(20*ms+aheadWait-1))
	require.True(t, p.late(20*ms+aheadWait))
}

func TestWhatFollowsFromTheEndOfARun(t *testing.T) {
	t.Parallel()
	failed := func(kind lifecycle.FailureKind, text string) lifecycle.Failure {
		return lifecycle.Failure{Kind: kind, Text: text}
	}
	for name, c := range map[string]struct {
		end  runEnd
		step checkinStep
		want lifecycle.Failure
	}{
		"it has ended":                 {runEnd{}, checkinStays, lifecycle.Failure{}},
		"it was cancelled":             {runEnd{stop: stopCancel}, checkinStays, lifecycle.Failure{}},
		"its worker was degraded":      {runEnd{probesFirst: true}, checkinProbes, lifecycle.Failure{}},
		"degraded, and retires":        {runEnd{probesFirst: true, retires: true}, checkinStays, lifecycle.Failure{}},
		"its worker leaves":            {runEnd{leaves: true, crashed: "exit"}, checkinEnds, lifecycle.Failure{}},
		"its worker was halted":        {runEnd{stop: stopHalt, crashed: "exit", probesFirst: true}, checkinEnds, lifecycle.Failure{}},
		"it took too long":             {runEnd{stop: stopTimeout, stopText: "long"}, checkinFails, failed(lifecycle.CommandTimedOut, "long")},
		"and took the worker along":    {runEnd{stop: stopStalled, stopText: "still", crashed: "exit"}, checkinFails, failed(lifecycle.CommandTimedOut, "still")},
		"its session's state ended it": {runEnd{unstarted: true, restoring: true, stop: stopTimeout, crashed: "SIGSEGV"}, checkinFails, failed(lifecycle.RestoreDied, "SIGSEGV")},
		"its worker could not take it": {runEnd{unstarted: true, crashed: "pipe"}, checkinFails, failed(lifecycle.CheckoutFailed, "pipe")},
		"it crashed":                   {runEnd{crashed: "exit"}, checkinFails, failed(lifecycle.ProcessExited, "exit")},
		"it was killed for a cancel": {runEnd{stop: stopCancel, crashed: "exit"}, checkinFails,
			lifecycle.Failure{Kind: lifecycle.ProcessExited, Text: "exit", Asked: true}},
		"it asks for a new worker": {runEnd{close: true, probesFirst: true}, checkinFails,
			failed(lifecycle.CloseRequested, "the code asked for a new worker")},
	} {
		step, failure := c.end.decide()
		require.Equal(t, c.step, step, name)
		require.Equal(t, c.want, failure, name)
	}
}

func TestWhatACheckinIsForTheRecoveryTable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		checkin checkin
		grade   health.Grade
		off     bool
		want    lifecycle.FailureKind
		fails   bool
	}{
		"a success":                        {checkin: checkin{outcome: ok()}},
		"the action's error":               {checkin: checkin{outcome: failed(&messages.Error{Message: "no"})}, want: lifecycle.ActionError, fails: true},
		"a fault":                          {checkin: checkin{outcome: fault(), fault: true}, want: lifecycle.WorkerFault, fails: true},
		"a fault, and health is off":       {checkin: checkin{outcome: fault(), fault: true}, off: true, want: lifecycle.ActionError, fails: true},
		"a success of an unhealthy one":    {checkin: checkin{outcome: ok()}, grade: health.Unhealthy, want: lifecycle.UnhealthyGrade, fails: true},
		"a success that counts as a fault": {checkin: checkin{outcome: ok(), fault: true}, want: lifecycle.WorkerFault, fails: true},
	} {
		got, fails := c.checkin.failure(c.grade, c.off)
		require.Equal(t, c.fails, fails, name)
		if fails {
			require.Equal(t, c.want, got.Kind, name)
		}
		if e := c.checkin.outcome.Error; e != nil {
			require.Equal(t, e.Message, got.Text, name)
		}
	}
}

func TestTheChangeOfARun(t *testing.T) {
	t.Parallel()
	type change struct {
		rescue    bool
		unstarted bool
		by        string
		status    messages.Status
		code      messages.Code
	}
	crash := lost("crash", "exit status 1", "tail")
	for name, c := range map[string]struct {
		change  func(*messages.Execution)
		stop    stopCause
		end     ended
		outcome messages.Outcome
		want    change
	}{
		"it has ended":             {outcome: ok(), want: change{status: messages.Completed}},
		"it failed":                {outcome: fault(), want: change{status: messages.Failed, code: "broken"}},
		"it has not begun":         {end: ended{unstarted: true}, outcome: crash, want: change{rescue: true, unstarted: true}},
		"nor for a halt":           {stop: stopHalt, end: ended{unstarted: true}, outcome: crash, want: change{rescue: true, unstarted: true, by: "ann"}},
		"nor heard of, halted":     {stop: stopHalt, end: ended{neverRan: true}, outcome: crash, want: change{rescue: true, unstarted: true, by: "ann"}},
		"nor heard of":             {end: ended{neverRan: true}, outcome: fault(), want: change{status: messages.Failed, code: "broken"}},
		"it crashed":               {outcome: crash, want: change{status: messages.Abandoned, code: messages.CodeWorkerLost}},
		"it may be repeated":       {change: idempotent, outcome: crash, want: change{rescue: true}},
		"it was halted":            {stop: stopHalt, outcome: crash, want: change{status: messages.Abandoned, code: messages.CodeWorkerLost, by: "ann"}},
		"halted, may be repeated":  {change: idempotent, stop: stopHalt, outcome: crash, want: change{rescue: true, unstarted: true, by: "ann"}},
		"halted, but had its word": {stop: stopHalt, outcome: ok(), want: change{status: messages.Completed}},
		"crashed for the third time": {change: func(e *messages.Execution) { e.Idempotent, e.CrashCount = true, 2 }, outcome: crash,
			want: change{status: messages.Failed, code: messages.CodePoisoned}},
		"crashed while it was cancelled by the store": {change: func(e *messages.Execution) { e.Status = messages.Cancelling }, outcome: crash,
			want: change{status: messages.Cancelled, code: messages.CodeCancelled}},
	} {
		e := &messages.Execution{ID: messages.NewExecutionID(), Attempt: 2, Status: messages.Running}
		if c.change != nil {
			c.change(e)
		}
		o := c.outcome
		if o.Error != nil { // as the rules may change it
			own := *o.Error
			o.Error = &own
		}
		var got change
		switch made := runChange(&Run{Execution: e, stop: c.stop}, &c.end, o, "ann").(type) {
		case *store.Rescue:
			got = change{rescue: true, unstarted: made.Unstarted, by: made.By}
			require.Equal(t, c.end.unstarted || c.end.neverRan, strings.HasPrefix(made.Reason, neverStarted), name)
		case *store.Finish:
			got = change{by: made.By, status: made.Outcome.Status}
			if made.Outcome.Error != nil {
				got.code = made.Outcome.Error.Code
			}
		}
		require.Equal(t, c.want, got, name)
	}
}

func TestWhatAWorkerThatLeavesDoesNext(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		leaving  leaving
		runs     bool
		claiming int
		want     endStep
	}{
		"a run is on it":          {runs: true, want: endWaits},
		"its process lives":       {want: endStopsRunner},
		"its process is stopped":  {leaving: leaving{down: true}, want: endWaits},
		"a claim is under way":    {leaving: leaving{gone: true}, claiming: 1, want: endWaits},
		"a claim, and it lives":   {claiming: 1, want: endStopsRunner},
		"a run without a process": {leaving: leaving{gone: true}, runs: true, want: endWaits},
		"nothing is left":         {leaving: leaving{gone: true}, want: endTells},
		"nothing, after a stop":   {leaving: leaving{gone: true, down: true}, want: endTells},
		"the pool knows":          {leaving: leaving{gone: true, told: true}, want: endWaits},
	} {
		require.Equal(t, c.want, c.leaving.next(c.runs, c.claiming), name)
	}
}

func TestHowLongARunMayGoOnWithoutASign(t *testing.T) {
	t.Parallel()
	now := time.Unix(100, 0)
	require.Zero(t, stallLeft(10*time.Second, time.Time{}, now), "it has given none")
	require.Equal(t, 7*time.Second, stallLeft(10*time.Second, now.Add(-3*time.Second), now))
	require.LessOrEqual(t, stallLeft(10*time.Second, now.Add(-10*time.Second), now), time.Duration(0))
}

func TestWhenAWorkerIsProbedAgain(t *testing.T) {
	t.Parallel()
	require.Equal(t, lifecycle.ProbeAgainAfter, probeDelay(0, 0))
	require.Equal(t, time.Second, probeDelay(time.Second, 0), "as the recovery table says")
	require.Equal(t, time.Minute, probeDelay(time.Second, time.Minute), "as it is configured")
}

func TestWhatAFailedProbeOrStartIs(t *testing.T) {
	t.Parallel()
	other := errors.New("ill")
	require.Equal(t, lifecycle.Failure{Kind: lifecycle.ProbeFailed, Text: "ill"}, probeFailure(other))
	require.Equal(t, lifecycle.Failure{Kind: lifecycle.ProbeTimedOut}, probeFailure(errProbeLate))
	require.Equal(t, lifecycle.NodeShort, probeFailure(errShort).Kind)
	for err, want := range map[error]lifecycle.FailureKind{
		other: lifecycle.InitFailed, errInitTimeout: lifecycle.InitTimedOut, fmt.Errorf("start: %w", process.ErrShortage): lifecycle.NodeShort,
	} {
		kind, reason := startFailure(err)
		require.Equal(t, want, kind)
		require.Equal(t, kind == lifecycle.InitTimedOut, reason == lifecycle.Timeout)
	}
}

func TestWhichStateIsSaved(t *testing.T) {
	t.Parallel()
	large := json.RawMessage(`"` + strings.Repeat("x", keepMax) + `"`)
	for name, c := range map[string]struct {
		snapshot
		want string
	}{
		"a state":               {snapshot{id: 1, state: json.RawMessage(`1`)}, KeptSaved},
		"none was given":        {snapshot{id: 1, err: errShort}, KeptRefused},
		"none is there":         {snapshot{id: 1, state: json.RawMessage(`null`)}, KeptEmpty},
		"too large for a pause": {snapshot{id: 1, state: large}, KeptTooLarge},
		"large, at the end":     {snapshot{state: large}, KeptSaved},
	} {
		require.Equal(t, c.want, stateVerdict(&c.snapshot), name)
	}
	cfg := WorkerConfig{ProbeTimeout: 5 * time.Second, LeaveWithin: time.Minute}
	require.Equal(t, time.Minute, cfg.keepTime(false))
	require.Equal(t, 5*time.Second, cfg.keepTime(true), "the time for running work is up")
	cfg.LeaveWithin = 0
	require.Equal(t, 5*time.Second, cfg.keepTime(false))
}
