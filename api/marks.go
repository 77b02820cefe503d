package api

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/journal"
	"github.com/troupe-run/troupe/rules/submit"
)

// Bounds of marks, and of the reasons of commands.
const (
	reasonMax    = 512 // bytes
	markNameMax  = 128
	markLabels   = 32
	markDetail   = 2 << 10 // bytes of all labels
	markAheadMax = time.Minute
	markBackMax  = 30 * 24 * time.Hour
)

// ReasonBody is the optional body of a command.
type ReasonBody struct {
	Reason string `json:"reason,omitempty" doc:"why, for the journal; up to 512 bytes"`
}

// MarkBody is the body of a mark.
type MarkBody struct {
	Name   string            `json:"name" doc:"what happened, such as deploy 1.4.2"`
	At     time.Time         `json:"at,omitzero" doc:"when; left out: now"`
	Labels map[string]string `json:"labels,omitempty"`
}

// MarkView is a mark as the journal has it within some seconds. Its number is given then.
type MarkView struct {
	At      time.Time            `json:"at"`
	Kind    messages.JournalKind `json:"kind"`
	Subject string               `json:"subject"`
	What    string               `json:"what"`
	Caller  string               `json:"caller,omitempty"`
	Detail  json.RawMessage      `json:"detail,omitempty"`
}

func markRoutes() []*route {
	return []*route{
		{method: "POST", path: "/api/v1/marks", scope: ScopeSubmit, group: "nodes", status: http.StatusCreated, storeless: true, bodyMax: 16 << 10,
			summary: "Mark a moment in the journal, such as a deployment.", body: MarkBody{}, result: MarkView{}, handle: (*server).mark},
	}
}

func (s *server) mark(c *call) error {
	var body MarkBody
	if err := c.decode(false, &body); err != nil {
		return err
	}
	e, err := markOf(&body, s.Now())
	if err != nil {
		return err
	}
	e.Caller = c.caller
	if !s.Backend.Mark(e) {
		return messages.Problemf(messages.CodeTooManyRequests, "mark %q is not recorded: the node takes %d marks at once, and then one in %s; try again",
			body.Name, journal.MarkBurst, journal.MarkEach)
	}
	return writeJSON(c.w, http.StatusCreated, &MarkView{At: e.At, Kind: e.Kind, Subject: e.Subject, What: e.What, Caller: e.Caller, Detail: e.Detail})
}

// markOf is the entry of a mark.
func markOf(body *MarkBody, now time.Time) (e messages.JournalEntry, err error) {
	if body.Name == "" {
		return e, invalid("name: say what is marked, such as deploy 1.4.2")
	}
	if p := submit.CheckText("name", body.Name, markNameMax); p != nil {
		return e, p
	}
	if body.At.IsZero() {
		body.At = now
	}
	if body.At.After(now.Add(markAheadMax)) || body.At.Before(now.Add(-markBackMax)) {
		return e, invalid("at must be within the last %d days, got %s", markBackMax/(24*time.Hour), body.At.Format(time.RFC3339))
	}
	e = messages.JournalEntry{At: body.At.UTC(), Kind: messages.JournalMark, Subject: body.Name, What: "mark"}
	if len(body.Labels) == 0 {
		return e, nil
	}
	if e.Detail, err = json.Marshal(map[string]any{"labels": body.Labels}); err != nil || len(body.Labels) > markLabels || len(e.Detail) > markDetail {
		return e, invalid("labels: at most %d, of %d bytes together", markLabels, markDetail)
	}
	return e, nil
}

// readReason reads the optional body of a command.
func (c *call) readReason() (string, error) {
	var body ReasonBody
	if err := c.decode(true, &body); err != nil {
		return "", err
	}
	return body.Reason, checkReason(body.Reason)
}

func checkReason(reason string) error {
	if p := submit.CheckText("reason", reason, reasonMax); p != nil {
		return p
	}
	return nil
}
