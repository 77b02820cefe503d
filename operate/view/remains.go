package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Remains is what is still known of an execution that is not stored.
type Remains struct {
	// Was says that it was stored: something that only happens to a stored execution names it.
	Was bool `json:"was_stored"`
	// Retention says that retention has deleted it: what names it is older than ended executions are kept.
	Retention bool                    `json:"deleted_by_retention"`
	Kept      float64                 `json:"retention_seconds,omitempty" doc:"for how long the node keeps ended executions; absent: for ever"`
	Journal   []messages.JournalEntry `json:"journal,omitempty" doc:"the commands about it, the newest first: up to 20"`
	More      bool                    `json:"journal_more,omitempty" doc:"there are older ones: GET /journal?subject=ID has them"`
	Retries   []RetryRemains          `json:"retries,omitempty" doc:"the executions of its chain that are stored, where it was the first: up to 50, oldest first"`
	RetriesN  int                     `json:"retries_n,omitempty" doc:"how many those are, as far as 1,000"`
	Run       *Run                    `json:"run,omitempty" doc:"its last run, where this node's memory has it"`
	Worker    messages.WorkerID       `json:"worker,omitempty" doc:"of that run"`
	Letters   []LetterRemains         `json:"dead_letters,omitempty" doc:"the dead letters that name it, newest first: up to 20"`
	Looked    []string                `json:"looked_at" doc:"where it was looked for"`
}

// RetryRemains is a stored execution of the chain.
type RetryRemains struct {
	ID          messages.ExecutionID `json:"id"`
	N           int                  `json:"n" doc:"its number in the chain, from 1"`
	Action      string               `json:"action_ref"`
	Status      messages.Status      `json:"status"`
	RequestedAt time.Time            `json:"requested_at"`
}

// LetterRemains is a dead letter that names the execution.
type LetterRemains struct {
	ID         int64             `json:"id"`
	At         time.Time         `json:"at"`
	Reason     string            `json:"reason"`
	Resolution string            `json:"resolution"`
	Attempt    messages.Attempt  `json:"attempt,omitempty"`
	Action     string            `json:"action_ref,omitempty"`
	Worker     messages.WorkerID `json:"worker,omitempty"`
}

// Message says in a sentence what became of the execution.
func (r *Remains) Message(id messages.ExecutionID) string {
	kept := "for ever"
	if r.Kept > 0 {
		kept = "for " + (time.Duration(r.Kept * float64(time.Second))).String()
	}
	switch {
	case r.Retention:
		return fmt.Sprintf("execution %s was deleted by retention: this node keeps ended executions %s. %s", id, kept, r.facts())
	case r.Was:
		return fmt.Sprintf("execution %s was stored and is no more. This node keeps ended executions %s. %s", id, kept, r.facts())
	case r.Kept > 0:
		return fmt.Sprintf("there is no execution %s: nothing of it is stored. Ended executions are kept %s, and then deleted", id, kept)
	}
	return fmt.Sprintf("there is no execution %s: nothing of it is stored, and this node deletes no executions", id)
}

// facts are the first things that are still known.
func (r *Remains) facts() string {
	var known []string
	if r.Run != nil {
		known = append(known, fmt.Sprintf("it ran %s on %s: %s", r.Run.Action, r.Worker, r.Run.Status))
	}
	if len(r.Journal) > 0 {
		e := &r.Journal[0]
		text := fmt.Sprintf("%s at %s", e.What, e.At.UTC().Format(time.RFC3339))
		if e.Caller != "" {
			text += " by " + e.Caller
		}
		known = append(known, text)
	}
	if len(r.Letters) > 0 {
		d := &r.Letters[0]
		known = append(known, fmt.Sprintf("dead letter %d at %s: %s", d.ID, d.At.UTC().Format(time.RFC3339), d.Reason))
	}
	if r.RetriesN > 0 {
		last := &r.Retries[len(r.Retries)-1]
		known = append(known, fmt.Sprintf("%d of its retries are stored, such as %s", r.RetriesN, last.ID))
	}
	return "Still known: " + strings.Join(known, "; ")
}
