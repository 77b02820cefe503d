package lifecycle

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// contract is the lifecycle as it is specified, written a second time and in another shape than the table's.
var contract = map[State]map[State]string{
	Initializing: {Ready: "init_complete", Terminated: "error timeout shutdown terminate"},
	Ready: {
		Busy: "checkout", Degraded: "health_check_failed recovery_degrade",
		Terminating: "shutdown terminate error health_check_failed",
	},
	Busy: {
		Ready: "checkin_success checkin_error", Degraded: "checkin_error health_check_failed recovery_degrade",
		Terminating: "timeout error shutdown terminate closed_by_client health_check_failed max_retries_exceeded",
	},
	Degraded: {
		Ready: "health_restored", Busy: "checkout",
		Terminating: "max_retries_exceeded health_check_failed error shutdown terminate",
	},
	Terminating: {Terminated: "cleanup_complete"},
}

func legal(from, to State, r Reason) bool {
	for _, name := range fields(contract[from][to]) {
		if name == r.String() {
			return true
		}
	}
	return false
}

func fields(s string) (out []string) {
	word := ""
	for _, c := range s + " " {
		if c != ' ' {
			word += string(c)
		} else if word != "" {
			out, word = append(out, word), ""
		}
	}
	return out
}

func TestEveryStateEveryReasonEveryTarget(t *testing.T) {
	t.Parallel()
	count := 0
	for _, from := range States() {
		for _, r := range append(Reasons(), NoReason, Reason(200)) {
			ends := map[State]bool{}
			for _, to := range append(States(), State(99)) {
				err := Check(from, to, r)
				if legal(from, to, r) {
					require.NoError(t, err)
					ends[to] = true
					count++
					continue
				}
				var invalid *InvalidTransitionError
				require.ErrorAs(t, err, &invalid)
				require.Equal(t, InvalidTransitionError{From: from, To: to, Reason: r, Targeted: true}, *invalid)
				require.ErrorContains(t, err, "invalid_transition")
			}
			next, err := Next(from, r)
			if len(ends) > 0 {
				require.NoError(t, err)
				require.True(t, ends[next], "%s for %s goes to %s", from, r, next)
				continue
			}
			require.Equal(t, from, next)
			var invalid *InvalidTransitionError
			require.ErrorAs(t, err, &invalid)
			require.Equal(t, InvalidTransitionError{From: from, Reason: r}, *invalid)
		}
	}
	require.Len(t, Edges(), count, "the table has edges that the contract does not have")
	require.Error(t, Check(State(99), Ready, Checkout))
	require.Error(t, Check(Ready, Busy, Reason(99)))
}

func TestNextTakesTheMilderEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []Edge{
		{Ready, Degraded, HealthCheckFailed},
		{Busy, Degraded, HealthCheckFailed},
		{Busy, Ready, CheckinError},
		{Degraded, Terminating, HealthCheckFailed},
	} {
		got, err := Next(c.From, c.Reason)
		require.NoError(t, err)
		require.Equal(t, c.To, got)
	}
}

func TestTerminatedIsFinalAndEveryStateIsReached(t *testing.T) {
	t.Parallel()
	reached := map[State]bool{Initializing: true}
	ForEachEdge(func(e Edge) {
		require.NotEqual(t, Terminated, e.From)
		require.NotEqual(t, HealthCheckPassed, e.Reason, "health alone changes")
		reached[e.To] = true
	})
	require.Len(t, reached, len(States()))
}

func TestNamesReadBack(t *testing.T) {
	t.Parallel()
	for _, s := range States() {
		text, err := s.MarshalText()
		require.NoError(t, err)
		var back State
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, s, back)
	}
	for _, h := range Healths() {
		text, err := h.MarshalText()
		require.NoError(t, err)
		var back Health
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, h, back)
	}
	require.Len(t, Reasons(), 15)
	for _, r := range Reasons() {
		text, err := r.MarshalText()
		require.NoError(t, err)
		var back Reason
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, r, back)
		require.Equal(t, r == Checkout || r == CheckinSuccess, r.Quiet())
	}
	for _, text := range []string{"", "none", "Ready", "nonsense"} {
		require.Error(t, new(State).UnmarshalText([]byte(text)))
		require.Error(t, new(Health).UnmarshalText([]byte(text)))
		require.Error(t, new(Reason).UnmarshalText([]byte(text)))
	}
	require.Equal(t, "state(99) health(99) reason(99) failure(99) action(99)", State(99).String()+" "+
		Health(99).String()+" "+Reason(99).String()+" "+FailureKind(99).String()+" "+Action(99).String())
}

// The first number behind the last state or reason is none, and is refused as such.
func TestWhatIsNoStateOrReasonHasNoTransition(t *testing.T) {
	t.Parallel()
	var invalid *InvalidTransitionError
	_, err := Next(State(stateCount), InitComplete)
	require.ErrorAs(t, err, &invalid)
	_, err = Next(Ready, Reason(reasonCount))
	require.ErrorAs(t, err, &invalid)
	require.ErrorAs(t, Check(Ready, State(stateCount), Checkout), &invalid)
	require.ErrorAs(t, Check(State(stateCount), Ready, Checkout), &invalid)
}
