package messages

// Failure is what one code of a failed execution means, and what a person does about it. An explanation of an execution has it, and
// docs/troubleshooting.md has the table.
type Failure struct {
	Code    Code
	Meaning string
	Do      string
}

// Failures are the codes that Troupe writes, in the order of the table.
func Failures() []Failure { return failures[:] }

// Advice is what a person does about an execution that failed with this code; empty: the code is the action's own.
func (c Code) Advice() string {
	for _, f := range failures {
		if f.Code == c {
			return f.Do
		}
	}
	return ""
}

var failures = [...]Failure{
	{CodeNoWorkers, "the pool had no live worker", "`troupe pools` shows whether it is broken, and why. With `on_no_worker: wait` in the action, executions wait instead."},
	{CodeNoNodeServes, "no node that it was placed on serves its action, for `executor.no_worker_deadline`", "Load its pack on a node (`troupe reload`), then retry it."},
	{CodeTimeout, "it ran past `timeout_seconds`, and was stopped", "Raise the timeout, or find the slow part in `troupe logs ID`."},
	{CodeStalled, "no progress for `stall_timeout`", "Call `ctx.progress` more often in the code."},
	{CodeWorkerLost, "its process or its node ended while it ran", "`exit` and `stderr` in `troupe get ID` say how. `idempotent: true` or `max_retries` in the action lets Troupe repeat it. " +
		"With `limit: memory` it exceeded its pool's limit: raise `limits.memory`, or use less memory. `troupe doctor` says under `containment` what enforces the limit on this machine."},
	{CodePoisoned, "it ended three workers, or five nodes ended while they ran it, over all retries of its chain", "Run its action by hand with the parameters of `troupe get ID`. Where the message names nodes, look first at why those ended: `troupe doctor` says how much memory they may take."},
	{CodeExitStatus, "a shell command ended with another status than 0", "Its stderr is in `troupe get ID` and `troupe logs ID`. It is retried if retries are left, unless the action's `retry` says otherwise."},
	{CodeCannotStart, "its command cannot be started: a file or an interpreter is missing, or is no program", "The message names it. Mend the command or the file, or install the interpreter; then submit it again."},
	{CodeLimit, "its process went over a limit of the pool", "The message names the limit. Raise it under `limits` in pack.yaml, or let the action use less."},
	{CodeResultTooLarge, "the result is above 8 MiB", "Write it to a file or an object store, and return its address."},
	{CodeResultNotJSON, "the result, or a chunk of it, is no JSON: a number that is not finite, a name twice in an object, half a character …", "The message has the path of the value. Return dicts, lists, texts and finite numbers; a number of more than 1,000 digits as a text."},
	{CodeNumberNotExact, "a number in its parameters or its session's state is none that the action's language can hold", "The message has its path. Send it as a text. In a pool of Node.js, `big_numbers` gives such numbers as BigInt or as texts."},
	{CodeUnstorable, "the store cannot keep the outcome of the run", "The message says why. Correct the action's result."},
	{CodeActionError, "the code raised an error", "Its type and traceback are in `troupe get ID -o json`, under `error.details`."},
	{CodeInvalidParameters, "they violate the schema, or their check takes too many steps", "The message names each field. Send fewer or smaller values."},
	{CodeTooLarge, "the parameters are above their limit", "Write them to a file or an object store, and send its address."},
	{CodeSessionBusy, "with `strict_fail`: the session's worker is not free", "Retry it, or submit with `strict`, which waits."},
	{CodeSessionLost, "with `strict_fail`: the session's worker is gone", "Retry it, or submit with `strict`, which goes on without the lost state."},
	{CodeSessionExpired, "with `strict_fail`: the binding was not used for the session timeout", "Retry it, or submit with `strict`, which binds it anew."},
	{CodeSessionStateBroken, "with `strict_fail`: the session's stored state ended each worker that it was given back to, and was set aside", "`troupe sessions state export` shows the state, and `drop` deletes it. Mend the action's `restore` hook, or submit with `strict`, which goes on without the state."},
	{CodeQueueDeadline, "no worker was free in time", "Use more workers, or a longer deadline."},
	{CodeQueueTimeout, "its message expired on a worker's queue: no worker started it for minutes", "See *A pool that does not deliver* in docs/troubleshooting.md."},
	{CodeStartTimeout, "it was placed, and no worker started it for minutes", "See *A pool that does not deliver* in docs/troubleshooting.md."},
	{CodeActionNotFound, "no loaded pack has the action any more", "`troupe actions` lists the loaded ones. Load its pack (`troupe reload`)."},
	{CodeProtocol, "its worker broke the protocol", "The message says how. Test the worker's program with `troupe worker check`."},
	{CodePermission, "the action may not do what it tried", "The message says what. Give its program the right, or correct the action."},
	{CodeRateLimited, "what the action calls takes no more calls now", "It is retried later if retries are left. Give the action a longer `retry` delay, or its pool fewer workers."},
	{CodeNodeShutdown, "its node was told to stop while it ran", "Retry it. A longer `worker.shutdown_timeout` lets more of what runs end first."},
	{CodeCancelled, "somebody cancelled it", "Nothing. `troupe get ID --events` says who did."},
}
