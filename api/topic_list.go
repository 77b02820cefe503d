package api

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/api/hub"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

func topicList(s *server, q query) (func(context.Context) (any, error), func(*hub.Change, func(string) bool) bool, error) {
	f, err := filterOf(q)
	if err != nil {
		return nil, nil, err
	}
	if f.Limit > topicRows {
		return nil, nil, invalid("limit may be %d in a topic, and is %d", topicRows, f.Limit)
	}
	read := func(ctx context.Context) (any, error) {
		list, err := s.page(ctx, f)
		if err != nil {
			return nil, err
		}
		briefly(list.Executions)
		return list, nil
	}
	touched := func(c *hub.Change, shown func(string) bool) bool {
		return shown("executions/"+c.ID.String()) || concerns(&f, c)
	}
	return read, touched, nil
}

// lasting reports whether a list has an execution for as long as that is stored, or never.
func lasting(f *store.Filter) bool {
	x := &f.Not
	n := len(f.Statuses) + len(f.Workers) + len(f.Errors) + len(f.Was) + len(f.Texts)
	not := len(x.Statuses) + len(x.Workers) + len(x.Errors) + len(x.Was) + len(x.Texts)
	return n+not == 0 && !f.Ends()
}

// concerns reports whether an execution can be in a list after a change, by what the change says of it.
func concerns(f *store.Filter, c *hub.Change) bool {
	differs := func(wanted []string, is string) bool {
		return len(wanted) > 0 && is != "" && !slices.Contains(wanted, is)
	}
	if differs(f.Actions, c.Action) || differs(f.Pools, c.Pool) || differs(f.Sessions, c.Session) || differs(f.Workers, c.Worker) {
		return false
	}
	if c.New && !f.Labelled(c.Labels) {
		return false
	}
	if !c.New && lasting(f) {
		return false // it was there before, or was not to be
	}
	if c.Status == 0 {
		return true
	}
	if f.Ends() && !c.Status.Terminal() {
		return false
	}
	return (len(f.Statuses) == 0 || slices.Contains(f.Statuses, c.Status)) && !slices.Contains(f.Not.Statuses, c.Status)
}

// Bounds of an execution in a list that is streamed, so that topicRows of them are no larger than a topic may be.
const (
	messageShown      = 500  // bytes of an error's message
	messageShownLeast = 100  // of one in a row that is too long
	rowMax            = 5000 // bytes of the row's JSON
	rowRest           = 2500 // bytes of it that are no long texts: names, numbers and times
)

// briefly leaves out of a list what only one execution's own page shows: results, details, and the end of a long message; and of a row that is
// still too long, what it can be read without.
func briefly(executions []form.ExecutionView) {
	for i := range executions {
		e := &executions[i]
		e.Result, e.Parameters = nil, nil
		if e.Error != nil {
			e.Error = e.Error.Listed(messageShown)
		}
		for _, leaveOut := range leftOut {
			if shortRow(e) {
				break
			}
			leaveOut(e)
		}
	}
}

// leftOut are the steps that make a row shorter. Names and labels are bounded when they are submitted, but JSON may take six bytes for each of theirs.
var leftOut = []func(*form.ExecutionView){
	func(e *form.ExecutionView) {
		if e.Error != nil {
			e.Error.Message = messages.ClipText(e.Error.Message, messageShownLeast)
		}
	},
	func(e *form.ExecutionView) { e.Labels = nil },
	func(e *form.ExecutionView) { e.TraceState, e.IdempotencyKey, e.RetryReason = "", "", "" },
	func(e *form.ExecutionView) {
		if e.Error != nil {
			e.Error = &messages.Error{Code: e.Error.Code, Message: e.Error.Message}
		}
	},
	func(e *form.ExecutionView) { e.Session, e.CreatedBy = "", "" },
}

// shortRow reports whether a row is within its bound. Most are by their texts alone.
func shortRow(e *form.ExecutionView) bool {
	texts := jsonMost(e.ActionRef, e.Version, e.Pool, string(e.Worker), e.Session, e.CreatedBy, e.IdempotencyKey, e.RetryReason, e.TraceState)
	for name, value := range e.Labels {
		texts += jsonMost(name, value)
	}
	if e.Error != nil {
		texts += jsonMost(string(e.Error.Code), e.Error.Message, e.Error.Type, e.Error.Class, e.Error.NoRetry, e.Error.FailedBy, e.Error.Exit)
	}
	if texts < rowMax-rowRest {
		return true
	}
	text, err := json.Marshal(e)
	return err != nil || len(text) <= rowMax
}

// jsonMost is how many bytes texts have at most in JSON, which may take six for one.
func jsonMost(texts ...string) (n int) {
	for _, text := range texts {
		for i := range len(text) {
			if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
				n += 6
			} else {
				n++
			}
		}
	}
	return n
}
