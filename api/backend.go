package api

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/bulk"
	"github.com/troupe-run/troupe/rules/differences"
	"github.com/troupe-run/troupe/rules/facets"
	"github.com/troupe-run/troupe/rules/failures"
	"github.com/troupe-run/troupe/rules/keyframe"
	"github.com/troupe-run/troupe/rules/rollup"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/rules/timeline"
	"github.com/troupe-run/troupe/store"
)

// Backend is the API's port to its node. Every method honours its context. Errors that a caller caused are
// *messages.Problem. All other errors are the node's fault.
type Backend interface {
	// Submit checks, completes and stores the requests, all or none.
	Submit(ctx context.Context, requests []submit.Request) ([]store.Submitted, error)
	// SubmitEach submits requests that do not depend on each other, and returns what became of each.
	SubmitEach(ctx context.Context, requests []submit.Request) []Submission
	// SubmitAwaited is Submit of one request whose caller waits for the outcome. Whoever gets an Awaited leaves it.
	SubmitAwaited(ctx context.Context, request submit.Request) (store.Submitted, Awaited, error)
	Get(ctx context.Context, id messages.ExecutionID) (messages.Execution, error)
	List(ctx context.Context, f store.Filter) (store.Page, error)
	Chain(ctx context.Context, id messages.ExecutionID) ([]messages.Execution, error)
	Events(ctx context.Context, id messages.ExecutionID) ([]store.Event, error)
	// Remains says what is still known of an execution that is not stored.
	Remains(ctx context.Context, id messages.ExecutionID) (view.Remains, error)
	// KeptFrom is when an execution must have ended to be kept; zero: all are.
	KeptFrom() time.Time
	// EventsBetween returns those in a range of time, and how many it leaves out.
	EventsBetween(ctx context.Context, q store.EventQuery) (store.EventPage, error)
	// Wait returns the execution once it is terminal, or its current state when ctx ends.
	Wait(ctx context.Context, id messages.ExecutionID) (messages.Execution, error)
	// Cancel returns the execution after the cancel: cancelled, cancelling, or terminal before.
	Cancel(ctx context.Context, id messages.ExecutionID, by string) (messages.Execution, error)
	// Retry stores a new execution of a terminal one's chain (reason manual_retry), with an idempotency key where one
	// is given. If the execution has a retry already, it returns that as Existing, unless that retry has another key.
	// by is the caller.
	Retry(ctx context.Context, id messages.ExecutionID, key, by string) (store.Submitted, error)
	// RetryAnswer says whether the execution has or gets a retry, with its id and time, or why there is none.
	RetryAnswer(ctx context.Context, e *messages.Execution) view.Retry
	// Webhook says who is told of an execution's outcome by HTTP.
	Webhook(ctx context.Context, id messages.ExecutionID) (messages.WebhookRecord, error)
	// Webhooks returns those that are due or were given up.
	Webhooks(ctx context.Context, q store.WebhookQuery) ([]messages.WebhookRecord, error)
	// RepeatWebhook has one called again that was told or given up.
	RepeatWebhook(ctx context.Context, id messages.ExecutionID) (messages.WebhookRecord, error)
	// Output returns what the execution's process has written so far.
	Output(ctx context.Context, id messages.ExecutionID) (messages.Output, error)
	// Follow calls each for every live event of the execution, from the first one, until it is terminal or ctx ends.
	Follow(ctx context.Context, id messages.ExecutionID, each func(view.Live) error) error
	// Why explains why an execution does not run yet.
	Why(ctx context.Context, id messages.ExecutionID) (view.Explanation, error)
	// Timeline says where the time of an execution went, in a part of it.
	Timeline(ctx context.Context, id messages.ExecutionID, part timeline.Part) (timeline.Timeline, error)
	LineAt(ctx context.Context, id messages.ExecutionID, at time.Time) (view.PastLine, error)
	// Journal returns a page of what happened outside of executions.
	Journal(ctx context.Context, q store.JournalQuery) (store.JournalPage, error)
	// Mark records a moment that somebody has named. It does not wait for the store. False: there are too many, and it is not recorded.
	Mark(e messages.JournalEntry) bool
	// Ledger says what became of the executions that were requested in a time, and whether any is missing.
	Ledger(ctx context.Context, from, to time.Time) (*rollup.Ledger, error)
	// Series returns how many executions were submitted and ended over time, and how long they waited and ran.
	Series(ctx context.Context, q rollup.Query) (*rollup.Series, error)

	// Differences says what is different in a time from the same length before it.
	Differences(ctx context.Context, from, to time.Time) (*differences.Differences, error)

	// Findings returns what is wrong now, by the rules of the alerts. It asks nobody.
	Findings() Findings

	// Overview returns what a first view shows, without what depends on the caller. It is up to a second old. Its counts are of a range; one
	// without an end is the last hour.
	Overview(ctx context.Context, from, to time.Time) Overview

	// Failures groups what failed in a time. It looks at a bounded number of executions, and the page says how far it came.
	Failures(ctx context.Context, f store.Filter, by failures.By) (*failures.Groups, store.Page, error)

	// Facets counts how many executions of a filter have each value of the fields. It looks at a bounded number of executions, or at counts
	// by minute, and the page says how far it came.
	Facets(ctx context.Context, f store.Filter, fields []facets.Field) (*facets.Counts, store.Page, error)

	// Fleet returns what all live nodes and their pools are now, a letter for each worker.
	Fleet(ctx context.Context) (*keyframe.Fleet, []view.Unreached, error)
	// FleetAt returns what they were at a time, as far as that was recorded.
	FleetAt(ctx context.Context, at time.Time) (*keyframe.Fleet, error)

	// Workers returns the workers of all live nodes, or of the named one.
	Workers(ctx context.Context, pool, node string) (view.Workers, error)
	// Worker and the methods below act on a worker of any node. by is the caller, for the record.
	Worker(ctx context.Context, id messages.WorkerID) (view.WorkerDetail, error)
	// Runs returns the last runs of a worker, newest first.
	Runs(ctx context.Context, id messages.WorkerID) (view.WorkerRuns, error)
	// ProbeWorker probes now and returns the result.
	ProbeWorker(ctx context.Context, id messages.WorkerID, by string) (view.WorkerDetail, error)
	CordonWorker(ctx context.Context, id messages.WorkerID, cordoned bool, by string) error
	KillWorker(ctx context.Context, id messages.WorkerID, by string) error
	Pools(ctx context.Context, node string) (view.Pools, error)
	// Pool returns one pool in detail, of all live nodes.
	Pool(ctx context.Context, name string) (view.PoolDetail, error)
	CordonPool(ctx context.Context, pool string, cordoned bool, by string) error
	Nodes(ctx context.Context) ([]view.Node, error)
	// Reach returns which live node reaches which other, as each says itself, and the nodes that did not answer.
	Reach(ctx context.Context) ([]view.Sights, []view.Unreached, error)
	CordonNode(ctx context.Context, id string, cordoned bool, by string) error
	DrainNode(ctx context.Context, id, by string) error
	Sessions(ctx context.Context, f store.SessionFilter, after string, limit int) ([]store.Session, error)
	Session(ctx context.Context, pool, name string) (view.Session, error)
	// SessionDetail returns a session with what waits in it and what happened to it.
	SessionDetail(ctx context.Context, pool, name string) (view.SessionDetail, error)
	// EndSession ends an idle session's binding, deletes its stored state, and returns the session without them.
	EndSession(ctx context.Context, pool, name, by string) (view.Session, error)
	// SessionStates returns the states of sessions that were set aside, the newest first, without the states themselves.
	SessionStates(ctx context.Context) ([]store.AsideState, error)
	// SessionState returns what is stored of a session's state.
	SessionState(ctx context.Context, pool, name string) (view.SessionState, error)
	// DropSessionState deletes it.
	DropSessionState(ctx context.Context, pool, name, by string) error
	Actions(ctx context.Context) ([]messages.Action, error)
	DeadLetters() store.DeadLetters
	// RequeueDeadLetter is Retry for the execution of a dead letter.
	RequeueDeadLetter(ctx context.Context, id int64, by string) (store.Submitted, error)
	// DiscardDeadLetter marks a dead letter as dropped and returns it. by is the caller.
	DiscardDeadLetter(ctx context.Context, id int64, by string) (store.DeadLetter, error)
	// Bulk has the operations on many executions or dead letters.
	Bulk() Bulk
	// Reload reads the packs again and returns the changes. by is the caller.
	Reload(ctx context.Context, by string) (ReloadReport, error)

	// Ready says whether the node accepts work, and what it waits for or lacks.
	Ready(ctx context.Context) Readiness
	// Redact removes the action's secret parameters.
	Redact(action string, parameters json.RawMessage) json.RawMessage
}

// Bulk is the part of a Backend for operations on many executions or dead letters.
type Bulk interface {
	// Preview counts what an operation would act on, and stores it as a preview. Of o it takes Kind, Filter or IDs, and By.
	Preview(ctx context.Context, o store.Operation) (store.Operation, *bulk.Tally, error)
	// Confirm starts a preview of the caller, and returns the operation. One that was confirmed before does not change.
	Confirm(ctx context.Context, id messages.OperationID, c Confirmation) (store.Operation, error)
	// Operation returns one that was started.
	Operation(ctx context.Context, id messages.OperationID) (store.Operation, error)
	Operations(ctx context.Context, q store.OperationQuery) ([]store.Operation, error)
	// Stop asks for the end of an operation, and returns it. by is the caller.
	Stop(ctx context.Context, id messages.OperationID, by string) (store.Operation, error)
}

// Confirmation is what a caller confirms of a preview.
type Confirmation struct {
	Count  int64 // as previewed
	Reason string
	Rate   int // executions a second
	By     string
}

// Submission is what became of one request: stored, or the error why it is not.
type Submission struct {
	Stored store.Submitted
	Err    error
}

// Awaited is an execution whose outcome its submitter waits for.
type Awaited interface {
	// Wait is Backend.Wait. What it returns may lack the parameters.
	Wait(ctx context.Context) (messages.Execution, error)
	// Leave ends the wait. It may be called again.
	Leave()
}

// Readiness is the answer of /readyz.
type Readiness struct {
	Ready       bool            `json:"ready"`
	WaitsFor    []string        `json:"waits_for,omitempty"`
	Waits       []ReadinessWait `json:"waits,omitempty" doc:"the same, with since when and what to do"`
	BrokenPools []string        `json:"broken_pools,omitempty"`
	Draining    bool            `json:"draining,omitempty"`
	Notes       []string        `json:"notes,omitempty"` // hints for a person, ready or not
}

// ReadinessWait is something that keeps a node from being ready.
type ReadinessWait struct {
	For      string    `json:"for" doc:"as in waits_for"`
	Since    time.Time `json:"since,omitzero" doc:"missing: the node does not know"`
	WhatToDo string    `json:"what_to_do,omitempty" doc:"missing: nothing but wait, or that is not known"`
}

// ReloadReport lists the changes of a reload of the packs.
type ReloadReport struct {
	Packs    []string `json:"packs"`
	Added    []string `json:"added,omitempty"`    // actions
	Removed  []string `json:"removed,omitempty"`  // actions
	Changed  []string `json:"changed,omitempty"`  // actions
	Replaced []string `json:"replaced,omitempty"` // pools whose workers are replaced one by one
	// Broken are pools whose workers fail to start, and that were broken before or do not change.
	Broken []ReloadFailure `json:"broken,omitempty"`
}

// ReloadFailure says why a worker of a pool did not start.
type ReloadFailure struct {
	Pool      string   `json:"pool"`
	Packs     []string `json:"packs" doc:"whose code it is: the pack of the action that could not be loaded, or those that have changed"`
	Error     string   `json:"error"`
	Traceback string   `json:"traceback,omitempty"`
}

// String returns the failure as one line.
func (f ReloadFailure) String() string {
	return fmt.Sprintf("pack %s: a worker of pool %s does not start: %s", strings.Join(f.Packs, ", "), f.Pool, f.Error)
}

// ReloadFailures are the details of the problem reload_failed.
type ReloadFailures struct {
	Pools []ReloadFailure `json:"pools"`
}
