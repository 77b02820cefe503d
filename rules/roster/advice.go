package roster

// Advice is what a person does about the reason. Names of commands and keys stand between backticks.
func (r Reason) Advice() string {
	if int(r) < len(advice) {
		return advice[r]
	}
	return ""
}

// advice is what a person does about each reason. docs/troubleshooting.md has it as a table, and explanations have it beside the reason.
var advice = [...]string{
	StoreAway:       "See *A server is away* in docs/troubleshooting.md. Nothing is lost: accepted executions are stored, and running ones go on.",
	BrokerAway:      "See *A server is away* in docs/troubleshooting.md. The execution is stored, and placed as soon as the broker is back.",
	BrokerBlocked:   "`rabbitmq-diagnostics alarms` on the broker's machine: give it memory or disk. The execution is stored, and placed when the alarm is over.",
	NotLoaded:       "Nothing, if it is not due or many wait before it: `troupe pools` shows how many (WAITING). A higher `--priority` goes first.",
	Ready:           "Nothing: it is placed within a second. If it stays, see *A pool that does not deliver* in docs/troubleshooting.md.",
	WorkersBusy:     "Wait, or give the pool more workers (`pool.<runtime>` or `workers:` in pack.yaml). `troupe top` shows what runs and for how long. A `queue_deadline` bounds the wait.",
	WorkersCordoned: "`troupe uncordon pool NAME`, `troupe uncordon worker ID` or `troupe uncordon node NAME`. `troupe workers` shows what is cordoned.",
	WorkersStarting: "Wait for the start, or until the workers' queues are connected again. If it takes long, `troupe workers` shows each worker's last failure, and the node's log its stderr.",
	SessionOrder:    "Nothing: a session's executions run one at a time, in order. `troupe list --session NAME` shows the first. Cancel it if it hangs.",
	SessionWorker:   "Wait for that worker (`troupe sessions`, `troupe workers ID`). With `--affinity hint` it would run elsewhere, without the session's state.",
	SessionUnknown:  "Nothing: the answer takes one store query.",
	NoWorkerYet:     "The action has `on_no_worker: wait`. Find out why the pool has no worker: `troupe pools`, `troupe doctor`. The execution fails with `no_workers` after `executor.no_worker_deadline`.",
	Settling:        "Nothing: after a start the router waits one heartbeat interval before it says that there are no workers.",
	PoolBroken:      "`troupe pools -o json` has the last error. Mend what it names (a module, a file, a secret, the interpreter), then `troupe reload`: see *A broken pool* in docs/troubleshooting.md.",
	BackedOff:       "Its workers do not start it. `troupe get ID --events` shows the reasons. Check the workers that it names.",
	BeingPlaced:     "Nothing: this takes one store transaction. If it stays, the disk is slow or full: check `troupe doctor` and `troupe_store_transaction_seconds`.",
	OnQueue:         "Nothing: it is claimed when the worker is free, or taken back after `executor.claim_timeout` (15 s). Its status may still be `requested`: with the dispatch `direct` it becomes `running` by its claim.",
	TakenBack:       "Nothing: it is placed elsewhere. `troupe_take_backs_total` counts how often that happens, by reason.",
	IsRunning:       "`troupe logs -f ID` shows its output and progress; `troupe cancel ID` stops it.",
	Handed:          "Nothing: the next router places it.",
	SessionBackedOff: "The session's first execution is not started by its workers. `troupe list --session NAME` shows it, and `troupe get ID --events` the reasons. " +
		"Cancel it to let the others run.",
}
