package lifecycle

import (
	"errors"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
)

func start() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// machineIn returns a machine that has come to a state on a legal way.
func machineIn(t require.TestingT, s State) Machine {
	m := New(start())
	ways := map[State][]Reason{
		Ready: {InitComplete}, Busy: {InitComplete, Checkout}, Degraded: {InitComplete, RecoveryDegrade},
		Terminating: {InitComplete, Terminate}, Terminated: {Terminate},
	}
	for _, r := range ways[s] {
		_, err := m.Transition(r, start(), Metadata{})
		require.NoError(t, err)
	}
	require.Equal(t, s, m.State())
	return m
}

func TestNewMachine(t *testing.T) {
	t.Parallel()
	m := New(start())
	require.Equal(t, Initializing, m.State())
	require.Equal(t, Unknown, m.Health())
	require.Empty(t, m.History())
	require.Equal(t, start(), m.EnteredAt())
}

func TestTransitionRecordsWhatHappened(t *testing.T) {
	t.Parallel()
	m := New(start())
	at := start()
	step := func(r Reason, after time.Duration, meta Metadata) Entry {
		at = at.Add(after)
		e, err := m.Transition(r, at, meta)
		require.NoError(t, err)
		require.Equal(t, at, m.EnteredAt())
		return e
	}
	step(InitComplete, 3*time.Second, Metadata{})
	require.Equal(t, Healthy, m.Health())
	execution := messages.ExecutionID{15: 1}
	out := step(Checkout, time.Second, Metadata{Execution: execution, Attempt: 2, Session: "s", Caller: "api"})
	require.Equal(t, time.Second, out.In)
	require.Equal(t, at.UnixMilli(), out.AtMillis)
	require.Equal(t, "s", out.Meta.Session)
	end := step(CheckinError, time.Minute, Metadata{Error: "boom", FailureCount: 1})
	require.Equal(t, Metadata{Execution: execution, Attempt: 2, Session: "s", Caller: "api"}, *out.Meta)
	require.Equal(t, Metadata{Error: "boom", FailureCount: 1}, *end.Meta, "an entry has what was known of its own transition")

	all := m.History()
	require.Len(t, all, 3)
	require.Equal(t, []Reason{CheckinError, Checkout, InitComplete}, []Reason{all[0].Reason, all[1].Reason, all[2].Reason})
	require.Nil(t, all[2].Meta)
	require.Equal(t, Entry{
		From: Initializing, To: Ready, Reason: InitComplete, In: 3 * time.Second,
		AtMillis: start().Add(3 * time.Second).UnixMilli(),
	}, all[2])
}

func TestInvalidTransitionChangesNothing(t *testing.T) {
	t.Parallel()
	for _, s := range States() {
		for _, r := range append(Reasons(), NoReason) {
			for _, to := range States() {
				if Check(s, to, r) == nil {
					continue
				}
				m := machineIn(t, s)
				before := m
				_, err := m.TransitionTo(to, r, start().Add(time.Hour), Metadata{Error: "x"})
				require.Error(t, err)
				require.Equal(t, before, m)
			}
			if _, err := Next(s, r); err != nil {
				m := machineIn(t, s)
				before := m
				_, err := m.Transition(r, start().Add(time.Hour), Metadata{Error: "x"})
				var invalid *InvalidTransitionError
				require.True(t, errors.As(err, &invalid))
				require.Equal(t, before, m)
			}
		}
	}
}

func TestEveryEdgeThroughTheMachine(t *testing.T) {
	t.Parallel()
	ForEachEdge(func(e Edge) {
		m := machineIn(t, e.From)
		got, err := m.TransitionTo(e.To, e.Reason, start().Add(time.Second), Metadata{})
		require.NoError(t, err)
		require.Equal(t, Edge{got.From, got.To, got.Reason}, e)
		require.Equal(t, e.To, m.State())
		switch e.Reason {
		case InitComplete, HealthRestored:
			require.Equal(t, Healthy, m.Health())
		case HealthCheckFailed:
			require.Equal(t, Unhealthy, m.Health())
		}
	})
}

func TestTerminateIsIdempotentFromEveryState(t *testing.T) {
	t.Parallel()
	for _, s := range States() {
		m := machineIn(t, s)
		e, changed := m.Terminate("asked", start())
		require.Equal(t, s < Terminating, changed, s)
		require.True(t, m.ShouldBeRemoved())
		require.Equal(t, s == Initializing || s == Terminated, m.State() == Terminated)
		if changed {
			require.Equal(t, "asked", e.Meta.Reason)
		}
		before := m
		_, changed = m.Terminate("again", start().Add(time.Hour))
		require.False(t, changed)
		require.Equal(t, before, m)
	}
}

func TestHealthAlone(t *testing.T) {
	t.Parallel()
	for _, s := range States() {
		m := machineIn(t, s)
		m.SetHealth(Unhealthy)
		require.False(t, m.SetHealth(Unhealthy))
		require.Equal(t, s, m.State())
		require.False(t, m.CanAcceptWork())
		e, restored := m.ProbePassed(start().Add(time.Second))
		require.Equal(t, Healthy, m.Health(), "a success makes healthy in whatever state")
		require.Equal(t, s == Degraded, restored)
		if restored {
			require.Equal(t, Edge{Degraded, Ready, HealthRestored}, Edge{e.From, e.To, e.Reason})
			require.Equal(t, Ready, m.State())
		} else {
			require.Equal(t, s, m.State())
		}
		require.Equal(t, m.State() == Ready, m.CanAcceptWork())
		require.False(t, m.CanAcceptLastResort())
	}
	m := machineIn(t, Degraded)
	require.True(t, m.CanAcceptLastResort())
	require.False(t, m.CanAcceptWork())
}

// Whatever a worker goes through, its history holds the newest transitions, unbroken and newest first, its state is
// where the last of them led, and only legal edges were taken.
func TestHistoryIsUnbroken(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := start()
		m := New(now)
		var all []Entry
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(-5, 1000).Draw(t, "ms")) * time.Millisecond)
			to := rapid.SampledFrom([]State{Ready, Ready, Busy, Busy, Degraded, Terminating, Terminated}).Draw(t, "to")
			e, err := m.TransitionTo(to, rapid.SampledFrom(Reasons()).Draw(t, "reason"), now, Metadata{})
			if err != nil {
				continue
			}
			require.NoError(t, Check(e.From, e.To, e.Reason))
			require.GreaterOrEqual(t, e.In, time.Duration(0))
			all = append(all, e)
			if to == Terminated {
				m = New(now)
				all = nil
			}
		}
		got := m.History()
		require.Len(t, got, min(len(all), HistoryMax))
		for i, e := range got {
			require.Equal(t, all[len(all)-1-i], e)
			if i > 0 {
				require.Equal(t, e.To, got[i-1].From)
			}
		}
		if len(got) > 0 {
			require.Equal(t, m.State(), got[0].To)
		}
	})
}

func TestHistoryForgetsTheOldest(t *testing.T) {
	t.Parallel()
	m := machineIn(t, Ready)
	for i := range 100 {
		_, err := m.Transition(Checkout, start(), Metadata{Attempt: messages.Attempt(i + 1)})
		require.NoError(t, err)
		_, err = m.Transition(CheckinSuccess, start(), Metadata{})
		require.NoError(t, err)
	}
	require.Equal(t, HistoryMax, m.HistoryLen())
	all := m.History()
	require.Equal(t, CheckinSuccess, all[0].Reason)
	require.EqualValues(t, 100, all[1].Meta.Attempt)
	require.EqualValues(t, 69, all[HistoryMax-1].Meta.Attempt)
}

// 10,000 idle workers have to fit into 60 MB with everything else they hold.
func TestIdleMachineIsSmall(t *testing.T) {
	t.Parallel()
	m := machineIn(t, Ready)
	size := unsafe.Sizeof(m) + uintptr(cap(m.history.ring))*unsafe.Sizeof(Entry{})
	require.LessOrEqual(t, size, uintptr(128))
}

func BenchmarkCheckoutCheckin(b *testing.B) {
	m := machineIn(b, Ready)
	now := start()
	meta := Metadata{Execution: messages.ExecutionID{15: 1}, Attempt: 1, Session: "s"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Transition(Checkout, now, meta); err != nil {
			b.Fatal(err)
		}
		if _, err := m.Transition(CheckinSuccess, now, Metadata{}); err != nil {
			b.Fatal(err)
		}
	}
}
