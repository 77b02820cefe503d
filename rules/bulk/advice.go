package bulk

import "strings"

// LetterCase is what dead letters of one kind mean, and what a person does about them.
type LetterCase struct {
	Reason     string // why the message came back; empty: any
	Resolution string // what it has become, or how that begins; empty: any
	Means      string
	WhatToDo   string
}

// LetterCases lists them. The first that a dead letter fits is its own.
func LetterCases() []LetterCase {
	return []LetterCase{
		{"", Requeued, "its execution was submitted again", "Nothing."},
		{"", Discarded, "somebody has marked it as handled", "Nothing."},
		{"", "stale", "the attempt was already over: taken back, or run on another worker", "Nothing."},
		{"", "missing", "the store does not have its execution: it was deleted, or is of another cluster", "Nothing. Discard it."},
		{"expired", "failed", "the message was on a worker's queue for the whole TTL: the worker hung, or the TTL is too short for your runs. Its execution failed with `queue_timeout`",
			"Check `troupe workers`, and the TTL (`message_queue.rabbitmq.worker_queue_ttl_ms`). Requeue it to run the execution again."},
		{"maxlen", "failed", "the worker's queue was full. Its execution failed with `queue_timeout`",
			"Check `troupe workers`, and the policies of the broker. Requeue it to run the execution again."},
		{"", "failed", "the broker gave the message back before a worker took it. Its execution failed with `queue_timeout`",
			"Check `troupe workers`, and the broker's log. Requeue it to run the execution again."},
		{"malformed", "", "another program publishes to a worker's queue, or publishes something that is no request to `troupe.requests`",
			"The body and the error say what. It cannot be requeued: discard it."},
		{"refused", "", "a submission by AMQP names an unknown action, violates its schema, or uses a taken key",
			"Correct it and submit it again. Discard this one."},
		{"", "", "a message that no node could handle was kept",
			"The body and the error say what it is. Discard it once it is handled."},
	}
}

// LetterAdvice says what a dead letter means, and what a person does about it.
func LetterAdvice(reason, resolution string) (means, whatToDo string) {
	for _, c := range LetterCases() {
		if (c.Reason == "" || c.Reason == reason) && strings.HasPrefix(resolution, c.Resolution) {
			return c.Means, c.WhatToDo
		}
	}
	return "", "" // the last case fits all
}
