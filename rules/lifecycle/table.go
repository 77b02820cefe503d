package lifecycle

import "fmt"

// Edge is one legal transition.
type Edge struct {
	From   State
	To     State
	Reason Reason
}

// rows is the lifecycle. It is the only place that knows the edges; everything else is derived from it. Where a state
// and a reason lead to two states, the milder row comes first, and Next takes it.
var rows = []struct {
	from    State
	to      State
	reasons []Reason
}{
	{Initializing, Ready, []Reason{InitComplete}},
	{Initializing, Terminated, []Reason{Error, Timeout, Shutdown, Terminate}},
	{Ready, Busy, []Reason{Checkout}},
	{Ready, Degraded, []Reason{HealthCheckFailed, RecoveryDegrade}},
	{Ready, Terminating, []Reason{Shutdown, Terminate, Error, HealthCheckFailed}},
	{Busy, Ready, []Reason{CheckinSuccess, CheckinError}},
	{Busy, Degraded, []Reason{CheckinError, HealthCheckFailed, RecoveryDegrade}},
	{Busy, Terminating, []Reason{
		Timeout, Error, Shutdown, Terminate, ClosedByClient, HealthCheckFailed, MaxRetriesExceeded,
	}},
	{Degraded, Ready, []Reason{HealthRestored}},
	{Degraded, Busy, []Reason{Checkout}},
	{Degraded, Terminating, []Reason{MaxRetriesExceeded, HealthCheckFailed, Error, Shutdown, Terminate}},
	{Terminating, Terminated, []Reason{CleanupComplete}},
}

const (
	stateCount  = len(stateNames)
	reasonCount = len(reasonNames)
)

// ends holds for each state and reason the states they lead to, as a set of bits; first holds the mildest of them.
var ends, first = compile()

func compile() (ends [stateCount][reasonCount]uint8, first [stateCount][reasonCount]State) {
	for _, row := range rows {
		for _, r := range row.reasons {
			if ends[row.from][r] == 0 {
				first[row.from][r] = row.to
			}
			ends[row.from][r] |= 1 << row.to
		}
	}
	return ends, first
}

// Edges lists every legal transition in the table's order.
func Edges() []Edge {
	var all []Edge
	ForEachEdge(func(e Edge) { all = append(all, e) })
	return all
}

// ForEachEdge calls f with every legal transition in the table's order.
func ForEachEdge(f func(Edge)) {
	for _, row := range rows {
		for _, r := range row.reasons {
			f(Edge{From: row.from, To: row.to, Reason: r})
		}
	}
}

// InvalidTransitionError says that a worker was asked for a transition that its lifecycle does not have. To is
// meaningful only where Targeted: Next has no target to name.
type InvalidTransitionError struct {
	From     State
	To       State
	Reason   Reason
	Targeted bool
}

func (e *InvalidTransitionError) Error() string {
	if !e.Targeted {
		return fmt.Sprintf("invalid_transition: no transition from %s for reason %s", e.From, e.Reason)
	}
	return fmt.Sprintf("invalid_transition: no transition from %s to %s for reason %s", e.From, e.To, e.Reason)
}

// Next returns the state that follows from s for reason r, the milder one where the table has two (a failed probe
// degrades, an error at check-in leaves the worker ready). An edge that is not in the table leaves s alone and
// returns an *InvalidTransitionError.
func Next(s State, r Reason) (State, error) {
	if !known(s, r) || ends[s][r] == 0 {
		return s, &InvalidTransitionError{From: s, Reason: r}
	}
	return first[s][r], nil
}

// Check returns an *InvalidTransitionError unless the table has the edge.
func Check(from, to State, r Reason) error {
	if !known(from, r) || int(to) >= stateCount || ends[from][r]&(1<<to) == 0 {
		return &InvalidTransitionError{From: from, To: to, Reason: r, Targeted: true}
	}
	return nil
}

func known(s State, r Reason) bool { return int(s) < stateCount && int(r) < reasonCount }
