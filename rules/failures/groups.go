package failures

import (
	"cmp"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Bounds of the groups.
const (
	GroupsMax   = 1000 // that are told apart; further ones are one, with the action (other)
	ExamplesMax = 3    // of a group
	SharesMax   = 5    // actions, codes or workers of a group that are listed
	sharesKept  = 100  // of a group while it is counted
)

// Other is the action of what has no group of its own.
const Other = "(other)"

// By is what the executions of a group have in common.
type By string

// The ways to group.
const (
	ByMessage By = "message" // the action, the code, the type, and the message without what differs
	ByCode    By = "code"    // the action and the code
	ByAction  By = "action"
	ByWorker  By = "worker"
)

// Ways lists them, the default first.
func Ways() []By { return []By{ByMessage, ByCode, ByAction, ByWorker} }

// Share is how many of a group's executions have a value.
type Share struct {
	Value string `json:"value"`
	N     int    `json:"n"`
}

// Group is what failed in the same way.
type Group struct {
	Action   string                 `json:"action_ref,omitempty"`
	Code     messages.Code          `json:"code,omitempty"`
	Type     string                 `json:"type,omitempty" doc:"of the exception"`
	Message  string                 `json:"message,omitempty" doc:"without numbers, ids and quoted texts"`
	Worker   string                 `json:"worker,omitempty"`
	N        int                    `json:"n"`
	First    time.Time              `json:"first" doc:"when the first one ended"`
	Last     time.Time              `json:"last"`
	Example  string                 `json:"example" doc:"the message of the last one"`
	Examples []messages.ExecutionID `json:"examples" doc:"the last three"`
	Actions  []Share                `json:"actions,omitempty" doc:"of its executions, the most frequent five; where they do not have one in common"`
	Codes    []Share                `json:"codes,omitempty" doc:"likewise"`
	Workers  []Share                `json:"workers,omitempty" doc:"likewise"`

	lasts                   []time.Time // of Examples
	actions, codes, workers map[string]int
}

type key struct {
	action, kind, message, worker string
	code                          messages.Code
}

// Groups collects executions.
type Groups struct {
	by  By
	of  map[key]*Group
	all int
}

// NewGroups makes groups without executions.
func NewGroups(by By) *Groups { return &Groups{by: by, of: map[key]*Group{}} }

// All is how many executions were added.
func (g *Groups) All() int { return g.all }

// keyOf is what an execution has in common with others of its group.
func (g *Groups) keyOf(e *messages.Execution) key {
	err := errorOf(e)
	switch g.by {
	case ByWorker:
		return key{worker: string(e.WorkerID)}
	case ByAction:
		return key{action: e.Action}
	case ByCode:
		return key{action: e.Action, code: err.Code}
	case ByMessage:
	}
	return key{action: e.Action, code: err.Code, kind: err.Type, message: Normal(err.Message)}
}

// errorOf is an execution's error. One that was abandoned or ended by an older release may have none.
func errorOf(e *messages.Execution) messages.Error {
	if e.Error == nil {
		return messages.Error{Code: messages.Code(e.Status.String())}
	}
	return *e.Error
}

// Add adds an execution that failed.
func (g *Groups) Add(e *messages.Execution) {
	g.all++
	k := g.keyOf(e)
	group := g.of[k]
	if group == nil {
		if len(g.of) >= GroupsMax {
			k = key{action: Other}
			group = g.of[k]
		}
		if group == nil {
			group = &Group{
				Action: k.action, Code: k.code, Type: k.kind, Message: k.message, Worker: k.worker, First: e.FinishedAt,
				actions: map[string]int{}, codes: map[string]int{}, workers: map[string]int{},
			}
			g.of[k] = group
		}
	}
	group.add(e)
}

func (g *Group) add(e *messages.Execution) {
	g.N++
	if e.FinishedAt.Before(g.First) {
		g.First = e.FinishedAt
	}
	err := errorOf(e)
	if !e.FinishedAt.Before(g.Last) {
		g.Last, g.Example = e.FinishedAt, clip(err.Message)
	}
	at := slices.IndexFunc(g.lasts, func(t time.Time) bool { return e.FinishedAt.After(t) })
	if at < 0 {
		at = len(g.lasts)
	}
	if at < ExamplesMax {
		g.lasts, g.Examples = slices.Insert(g.lasts, at, e.FinishedAt), slices.Insert(g.Examples, at, e.ID)
		n := min(len(g.lasts), ExamplesMax)
		g.lasts, g.Examples = g.lasts[:n], g.Examples[:n]
	}
	count(g.actions, e.Action)
	count(g.codes, string(err.Code))
	count(g.workers, string(e.WorkerID))
}

func clip(text string) string {
	if len(text) <= messageMax {
		return text
	}
	return text[:messageMax] + "…"
}

func count(of map[string]int, value string) {
	if _, known := of[value]; value != "" && (known || len(of) < sharesKept) {
		of[value]++
	}
}

// Done returns the groups, the largest first, at most so many, and how many there are beyond.
func (g *Groups) Done(limit int) (list []*Group, left int) {
	list = []*Group{}
	for k, group := range g.of {
		if k.action == "" || k.action == Other {
			group.Actions = shares(group.actions)
		}
		if k.code == "" {
			group.Codes = shares(group.codes)
		}
		if k.worker == "" {
			group.Workers = shares(group.workers)
		}
		list = append(list, group)
	}
	slices.SortFunc(list, func(a, b *Group) int {
		return cmp.Or(cmp.Compare(b.N, a.N), b.Last.Compare(a.Last), cmp.Compare(a.Action, b.Action), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message), cmp.Compare(a.Worker, b.Worker))
	})
	n := min(len(list), limit)
	return list[:n], len(list) - n
}

func shares(of map[string]int) (list []Share) {
	for value, n := range of {
		list = append(list, Share{value, n})
	}
	slices.SortFunc(list, func(a, b Share) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Value, b.Value)) })
	return list[:min(len(list), SharesMax)]
}
