package timeline

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// boot is a worker of one incarnation of its node: the next one has workers of the same names, and counts their generations anew.
type boot struct {
	worker messages.WorkerID
	of     messages.Incarnation
}

// workerLane are the states of its workers.
func (r *reading) workerLane() []State {
	var boots []boot
	for i := range r.Transitions {
		if b := (boot{r.Transitions[i].Worker, r.Transitions[i].Incarnation}); !slices.Contains(boots, b) {
			boots = append(boots, b)
		}
	}
	var all []State
	for _, b := range boots {
		states := r.statesOf(b)
		if last, end := &states[len(states)-1], r.nodeEnd(b.of); last.What != terminated && !end.IsZero() {
			last.To = earlier(last.To, later(last.From, end))
		}
		all = append(all, states...)
	}
	return r.keepWithin(r.busy(all))
}

// nodeEnd is when a node ended, or its last heartbeat: nobody knows what its workers were after it. Zero: that is not known.
func (r *reading) nodeEnd(of messages.Incarnation) time.Time {
	for i := range r.Nodes {
		if e := &r.Nodes[i]; e.Subject == of.String() && (e.What == dead || e.What == "fenced" || e.What == "stopped") {
			return e.At
		}
	}
	return r.Beats[of]
}

// terminated is the last state of a worker's generation.
const terminated = "terminated"

// statesOf are the states of one worker. A generation may begin before the one before it has ended, as in a reload: the older one
// holds until its end.
func (r *reading) statesOf(b boot) (all []State) {
	generations := map[messages.Generation][]State{}
	for i := range r.Transitions {
		v := &r.Transitions[i]
		if v.Worker != b.worker || v.Incarnation != b.of {
			continue
		}
		s := State{From: v.At, To: r.end(), Of: string(v.Worker), What: v.To, Generation: v.Generation, Reason: v.Reason}
		states := generations[v.Generation]
		if n := len(states); n > 0 {
			states[n-1].To = v.At
		} else if v.Lasted > 0 {
			states = append(states, State{From: v.At.Add(-v.Lasted), To: v.At, Of: s.Of, What: v.From, Generation: v.Generation})
		}
		generations[v.Generation] = append(states, s)
	}
	var order []messages.Generation
	for g := range generations {
		order = append(order, g)
	}
	slices.Sort(order)
	for _, g := range order {
		all = succeed(all, generations[g])
	}
	return all
}

// succeed puts the states of the next generation behind those of the ones before it.
func succeed(before, next []State) []State {
	if len(before) == 0 {
		return next
	}
	end := next[0].From // of the older one; where nothing says so, the next one has begun
	if last := &before[len(before)-1]; last.What == terminated {
		end = later(end, last.From)
	}
	cut := func(s State, from, to time.Time) (State, bool) {
		s.From, s.To = later(s.From, from), earlier(s.To, to)
		return s, s.From.Before(s.To)
	}
	var all []State
	for _, s := range before {
		if s, some := cut(s, s.From, end); some {
			all = append(all, s)
		}
	}
	for _, s := range next {
		if s, some := cut(s, end, s.To); some {
			all = append(all, s)
		}
	}
	return all
}

// What a node is by the entries of the journal about it.
const (
	alive  = "alive"
	late   = "late"
	silent = "silent" // its heartbeats had stopped, as of a frozen node, and it was not declared dead yet
	dead   = "dead"
)

// nodeLane are the states of the nodes of its workers, as far as is known.
func (r *reading) nodeLane() []State {
	byNode := map[string][]State{}
	var nodes []string
	for i := range r.Nodes {
		e := &r.Nodes[i]
		states := byNode[e.Subject]
		if len(states) == 0 {
			nodes = append(nodes, e.Subject)
		}
		byNode[e.Subject] = r.become(states, e)
	}
	var all []State
	for _, node := range nodes {
		states := byNode[node]
		if last := &states[len(states)-1]; last.What != dead && last.What != "stopped" {
			if last.To = earlier(last.To, r.beatOf(node)); !last.From.Before(last.To) {
				last.To = time.Time{} // nothing says how long it was so
			}
		}
		all = append(all, states...)
	}
	return r.keepWithin(all)
}

// become adds what an entry says to the states of its node.
func (r *reading) become(states []State, e *messages.JournalEntry) []State {
	s := State{From: e.At, To: r.end(), Of: r.nameOf(e.Subject), What: e.What, Reason: e.Reason, By: r.Names[e.Incarnation]}
	if s.What == "joined" || s.What == "on_time" {
		s.What = alive
	}
	if len(states) == 0 {
		return append(states, s)
	}
	last := &states[len(states)-1]
	if last.What == dead && (s.What == late || s.What == alive || s.What == "draining") {
		return states // it did not know yet
	}
	last.To = s.From
	if beat := beatBefore(e); s.What == dead && beat.Before(s.From) && !beat.IsZero() {
		quiet := State{From: later(beat, last.From), To: s.From, Of: s.Of, What: silent, Reason: "no heartbeat", By: s.By}
		last.To = quiet.From
		states = append(states, quiet)
	}
	return append(states, s)
}

// beatBefore is the last heartbeat of a node that an entry declares dead.
func beatBefore(e *messages.JournalEntry) time.Time {
	var d struct {
		At time.Time `json:"beat_at"`
	}
	if json.Unmarshal(e.Detail, &d) != nil {
		return time.Time{}
	}
	return d.At
}

// beatOf is when a node last renewed its lease.
func (r *reading) beatOf(incarnation string) time.Time {
	inc, err := messages.ParseIncarnation(incarnation)
	if err != nil {
		return time.Time{}
	}
	return r.Beats[inc]
}
