package alerts

import "time"

// busy is how many executions a pool must have ended in five minutes before a share of them means something.
const busy = 20

// LostFor is how long a lost node is told of. The metric that counts them looks as far back.
const LostFor = 10 * time.Minute

// Rules are all alerts, the most urgent first.
func Rules() []Rule {
	var all []Rule
	for _, part := range [][]Rule{servers(), workers(), executions(), letters(), nodes()} {
		all = append(all, part...)
	}
	return all
}

func servers() []Rule {
	return []Rule{
		{
			Name: "store_away", Severity: Critical, Subject: Node, Measure: own{node("troupe_store_up")}, Bad: Is, Limit: 0, For: 30 * time.Second,
			Summary: "the store does not answer",
			Means:   "The node cannot read or write its store. It accepts nothing, places nothing and keeps the outcomes of what runs. If other nodes still reach the store, this node is cut off: it ends what runs before they take it, and starts again. If the store is away for all nodes, running work goes on, for up to `store.outage_grace`.",
			Do:      "Check that the database runs and can be reached from this node: `troupe doctor --store URL`. `/readyz` of the node says whether the store is away for everyone. When it is back, the node goes on by itself.",
		},
		{
			Name: "broker_away", Severity: Critical, Subject: Node, Measure: own{node("troupe_broker_up")}, Bad: Is, Limit: 0, For: 30 * time.Second,
			Summary: "the broker is not connected",
			Means:   "Submissions are stored and wait. Nothing is placed on workers of pools with the dispatch broker until it is back; what runs goes on.",
			Do:      "Check that RabbitMQ runs and can be reached from this node: `troupe doctor`. When it is back, what waits is placed.",
		},
		{
			Name: "broker_blocked", Severity: Critical, Subject: Node, Measure: own{node("troupe_broker_blocked")}, Bad: Is, Limit: 1, For: 30 * time.Second,
			Summary: "the broker accepts no messages (a memory or disk alarm)",
			Means:   "RabbitMQ has a memory or disk alarm and accepts nothing. Submissions are stored, and those to pools with the dispatch broker wait.",
			Do:      "`rabbitmq-diagnostics alarms` on the broker's machine says which. Give it memory or disk; nothing has to be restarted.",
		},
		{
			Name: "recorder_stalled", Severity: Critical, Subject: Node, Measure: own{node("troupe_recorder_uncommitted_seconds")}, Bad: Above, Limit: 30, For: 0,
			Summary: "an outcome has waited {value} s to be stored",
			Means:   "Changes of executions are not committed although they are asked for. Either the store is slow or away, or a row is locked by somebody else (`troupe_recorder_held_executions` counts those).",
			Do:      "Look for long transactions and locks in the database. Nothing is lost while the node lives; do not kill it.",
		},
		{
			Name: "store_slow", Severity: Warning, Subject: Node, Measure: quantile{0.99, over{rate, 5, Series{Name: "troupe_store_transaction_seconds_bucket", By: "le"}}},
			Bad: Above, Limit: 0.5, For: 5 * time.Minute,
			Summary: "a transaction in a hundred takes more than {value} s",
			Means:   "The store's disk or the database is slow. Each start and end of an execution waits for a transaction.",
			Do:      "Compare with the database's own figures: disk latency, checkpoints, autovacuum, other load.",
		},
		{
			Name: "outbox_behind", Severity: Warning, Subject: Cluster, Measure: all{largest, Cluster, node("troupe_notices_oldest_seconds")}, Bad: Above, Limit: 60, For: time.Minute,
			Summary: "the oldest completion notice has waited {value} s",
			Means:   "Completion notices are sent later than executions end. The outcomes themselves are stored and can be read.",
			Do:      "Check the broker, and which node sends (`troupe_notices_teller`); its log names refused notices. A queue that refuses messages because it is full shows here too.",
		},
		{
			Name: "webhooks_behind", Severity: Warning, Subject: Cluster, Measure: all{largest, Cluster, node("troupe_webhooks_oldest_seconds")}, Bad: Above, Limit: 900, For: 5 * time.Minute,
			Summary: "the oldest webhook has been due for {value} s",
			Means:   "An address that is to be told of an outcome has not taken it for long. The calls are repeated, and given up after `webhooks.give_up_after`. The outcomes themselves are stored and can be read.",
			Do:      "`troupe webhooks --state due` says which addresses, and why the last call failed. When an address answers again, what is due is told by itself; what was given up meanwhile: `troupe webhooks retry ID`.",
		},
		{
			Name: "clock_skew", Severity: Warning, Subject: Node, Measure: magnitude{own{node("troupe_clock_ahead_seconds")}}, Bad: Above, Limit: 1, For: 2 * time.Minute,
			Summary: "its clock is {value} s away from the store's",
			Means:   "The machine's clock and the store's differ. Troupe reckons with the store's time, so leases hold, but times in logs and those that programs note themselves are wrong.",
			Do:      "Let NTP set the clock of this machine, and that of the store's.",
		},
	}
}

func workers() []Rule {
	unattached := ratio{all{sum, Pool, pools("troupe_workers_unattached")}, all{sum, Pool, grades()}}
	unhealthy := ratio{all{sum, Pool, grades("unhealthy")}, all{sum, Pool, grades()}}
	return []Rule{
		{
			Name: "no_active_workers", Severity: Critical, Subject: Pool, Measure: all{sum, Pool, grades("healthy", "degraded")},
			Bad: Is, Limit: 0, For: 30 * time.Second,
			Summary: "no worker can take work",
			Means:   "On no node has the pool a healthy or degraded worker. What is due fails with `no_workers`. While a worker starts it waits, and with `on_no_worker: wait` it waits up to `executor.no_worker_deadline`.",
			Do:      "`troupe pools` and `troupe workers` show each worker's state and last failure. Is the pool broken, cordoned, or is it still starting?",
		},
		{
			Name: "pool_broken", Severity: Critical, Subject: Pool, Measure: all{largest, Pool, pools("troupe_pool_broken")}, Bad: Is, Limit: 1, For: 0,
			Summary: "its workers keep failing to start, on some node",
			Means:   "Every worker of the pool on a node failed more often than the pool may restart them. The node tries again with growing pauses.",
			Do:      "`troupe pools` shows the last error, `troupe workers` the stderr of the failed starts. Usually a module cannot be imported, or a secret or file is missing. After mending: `troupe reload`.",
		},
		{
			Name: "unhealthy_workers", Severity: Critical, Subject: Pool, Measure: unhealthy, Bad: Above, Limit: 0.7, For: time.Minute,
			Summary: "a share of {value} of its workers is unhealthy",
			Means:   "Most workers of the pool fail their probes or their work, or their heartbeats are old. Unhealthy workers are given no work.",
			Do:      "`troupe workers` lists the grade and its reasons. A common cause that all share: a service that they call, memory, or the node's heartbeat (see `heartbeat_late`).",
		},
		{
			Name: "unhealthy_workers", Severity: Warning, Subject: Pool, Measure: unhealthy, Bad: Above, Limit: 0.3, For: time.Minute,
			Summary: "a share of {value} of its workers is unhealthy",
			Means:   "Several workers of the pool fail their probes or their work. Unhealthy workers are given no work: the others have all of it.",
			Do:      "`troupe workers` lists the grade and its reasons; `troupe worker probe ID` asks one again, `troupe worker kill ID` replaces it.",
		},
		{
			Name: "workers_restarting", Severity: Warning, Subject: Pool, Measure: minutely{all{sum, Pool, over{rate, 10, pools("troupe_worker_restarts_total")}}}, Bad: Above, Limit: 6, For: 5 * time.Minute,
			Summary: "{value} workers a minute are started again after a failure",
			Means:   "Workers die again and again: their programs crash, are killed for memory, or do not answer.",
			Do:      "`troupe workers` shows the last failure of each, `troupe list --status failed,abandoned` what ran. The error of an execution that ended its worker names it.",
		},
		{
			Name: "workers_unattached", Severity: Critical, Subject: Pool, Measure: unattached, Bad: Above, Limit: 0.7, For: 0,
			Summary: "a share of {value} of its workers is ready and gets no work",
			Means:   "The broker does not deliver what is on most workers' queues: it refuses to declare or to read them. What is submitted waits, although workers are ready.",
			Do:      unattachedDo,
		},
		{
			Name: "workers_unattached", Severity: Warning, Subject: Pool, Measure: unattached, Bad: Above, Limit: 0, For: 0,
			Summary: "a share of {value} of its workers is ready and gets no work",
			Means:   "The broker does not deliver what is on the queues of these workers. The others have all the work.",
			Do:      unattachedDo,
		},
		{
			Name: "session_state_broken", Severity: Warning, Subject: Pool, Measure: all{largest, Pool, pools("troupe_session_states_aside")}, Bad: Above, Limit: 0, For: 0,
			Summary: "{value} stored states of its sessions are set aside",
			Means:   "A session's stored state ended three workers in a row that it was given back to. It is kept, and given to nobody: the session goes on without it, and a `strict_fail` execution ends with `session_state_broken`.",
			Do:      "`troupe sessions state` lists them, and `troupe sessions state export POOL/NAME` prints one. Mend the `restore` hook, then `troupe sessions state drop POOL/NAME`, which also ends this alert.",
		},
		{
			Name: "dispatch_late", Severity: Warning, Subject: Pool, Measure: all{sum, Pool, over{increase, 5, pools("troupe_dispatch_echo_late_total")}}, Bad: Above, Limit: 0, For: 0,
			Summary: "a message to its workers did not come back in time",
			Means:   "A probe that goes the way of placements was late: the broker, the way to the workers or their actors deliver slowly or not at all.",
			Do:      "`troupe tree troupe/pools/NAME` shows the mailboxes. See *A pool that does not deliver* in troubleshooting.md.",
		},
	}
}

// unattachedDo is the advice for workers whose queue does not deliver.
const unattachedDo = "`troupe pools` has the broker's words. A queue that the server cannot use: `rabbitmqctl delete_queue NAME`, " +
	"and the node declares it anew; a missing permission: `rabbitmqctl set_permissions`; anything else: the log of the server. The node tries again by itself."

func executions() []Rule {
	ended := pools("troupe_executions_total")
	retries := among{
		ratio{all{sum, Pool, over{rate, 5, pools("troupe_retries_total")}}, all{sum, Pool, over{rate, 5, ended}}},
		all{sum, Pool, over{increase, 5, ended}}, busy,
	}
	return []Rule{
		{
			Name: "high_execution_timeout_rate", Severity: Warning, Subject: Pool, Measure: minutely{all{sum, Pool, over{rate, 2, pools("troupe_execution_timeouts_total")}}}, Bad: Above, Limit: 10, For: 0,
			Summary: "{value} executions a minute end for a timeout",
			Means:   "Runs take longer than they may, stop showing signs of life, or executions wait longer than their deadline. The label `code` of the metric says which.",
			Do:      "`troupe list --status timed_out --pool NAME`, then `troupe timeline ID` of one: did it wait or run? Raise `timeout_seconds`, give the pool more workers, or mend what it calls.",
		},
		{
			Name: "retry_rate", Severity: Critical, Subject: Pool, Measure: retries, Bad: Above, Limit: 0.5, For: 5 * time.Minute,
			Summary: "for each execution that ends, {value} retries are made",
			Means:   "More than half of what ends is tried again. Counted where at least 20 executions ended in five minutes.",
			Do:      "The label `reason` of `troupe_retries_total` says why. Where a service that all call is down, consider to cordon the pool until it is back.",
		},
		{
			Name: "retry_rate", Severity: Warning, Subject: Pool, Measure: retries, Bad: Above, Limit: 0.2, For: 5 * time.Minute,
			Summary: "for each execution that ends, {value} retries are made",
			Means:   "A fifth of what ends is tried again. Counted where at least 20 executions ended in five minutes.",
			Do:      "The label `reason` of `troupe_retries_total` says why. `troupe_retries_succeeded_total` says whether it helps.",
		},
		{
			Name: "executions_poisoned", Severity: Warning, Subject: Pool,
			Measure: all{sum, Pool, over{increase, 10, Series{Name: "troupe_executions_total", By: string(Pool), Label: "code", Values: []string{"poisoned"}}}},
			Bad:     Above, Limit: 0, For: 0,
			Summary: "{value} executions were given up as poisoned in ten minutes",
			Means:   "Each has ended three workers of its pool, or five nodes ended while they ran it. It has failed, and no retry follows.",
			Do:      "`troupe errors --pool NAME` lists them, and the message of each says which workers or nodes. Run the action by hand with the parameters of `troupe get ID`. Where nodes ended, look at their memory first: `troupe doctor` says how much they may take.",
		},
		{
			Name: "stale_executions", Severity: Warning, Subject: Pool, Measure: all{largest, Pool, pools("troupe_executions_stale_seconds")}, Bad: Above, Limit: 300, For: 0,
			Summary: "an execution should have started {value} s ago",
			Means:   "An execution is placed and no worker claims it, or it is due, without a session, while a worker of its pool is ready. A placement is taken back after `executor.claim_timeout` and what is due is placed within seconds, so a router or a sweep does not work.",
			Do:      "`troupe list --status requested,scheduled --pool NAME`, then `troupe why ID`. See *A pool that does not deliver* in troubleshooting.md.",
		},
	}
}

func letters() []Rule {
	depth := all{largest, Cluster, node("troupe_dead_letter_queue_messages")}
	return []Rule{
		{
			Name: "dlq_buildup", Severity: Critical, Subject: Cluster, Measure: depth, Bad: Above, Limit: 100, For: 5 * time.Minute,
			Summary: "{value} dead letters have waited for five minutes",
			Means:   "Dead letters come faster than they are handled, or nobody handles them. Each is a placement that expired on a worker's queue. When it is handled, an execution that is still `scheduled` by that placement ends as `failed`, with `queue_timeout`, and is retried by its rules.",
			Do:      "Does a node log \"Dead letter handler started\"? `troupe dead-letters` lists those that were put aside. See bridges.md.",
		},
		{
			Name: "dlq_buildup", Severity: Warning, Subject: Cluster, Measure: depth, Bad: Above, Limit: 100, For: 0,
			Summary: "{value} dead letters wait",
			Means:   "Many placements expired on workers' queues at once, as after the loss of a node with full queues.",
			Do:      "Watch whether the number falls. If it does not, `dlq_buildup` becomes critical after five minutes.",
		},
		{
			Name: "dlq_rate", Severity: Warning, Subject: Cluster, Measure: minutely{all{sum, Cluster, over{rate, 5, node("troupe_dead_letters_total")}}}, Bad: Above, Limit: 10, For: 0,
			Summary: "{value} dead letters a minute",
			Means:   "Placements expire on workers' queues: workers do not start what is placed on them.",
			Do:      "The labels `reason` and `resolution` of `troupe_dead_letters_total` say why and what became of them. Compare `message_queue.rabbitmq.worker_queue_ttl_ms` with how long runs take.",
		},
	}
}

func nodes() []Rule {
	return []Rule{
		{
			Name: "node_lost", Severity: Critical, Subject: Cluster, Measure: all{largest, Cluster, node("troupe_nodes_lost_recently")}, Bad: Above, Limit: 0, For: 0,
			Summary: "a node was lost in the last ten minutes",
			Means:   "A node's process ended without a drain, froze, or lost its way to the store. Its executions are placed again where they may be repeated, or end as `abandoned`.",
			Do:      "`troupe history --kinds node` names it, why and since when. Is it restarted by its supervisor? `troupe list --status abandoned` shows what was not repeated.",
		},
		{
			Name: "heartbeat_late", Severity: Warning, Subject: Node, Measure: own{node("troupe_heartbeat_age_seconds")}, Bad: Above, Limit: 30, For: 0,
			Summary: "its workers' heartbeats are {value} s old",
			Means:   "The store has not accepted the heartbeats of this node's workers. Workers with old heartbeats count as unhealthy, and work is placed elsewhere.",
			Do:      "Is the store slow or away for this node? Is the machine out of CPU? The node's log says \"Worker heartbeat is stale\".",
		},
		{
			Name: "actor_stuck", Severity: Warning, Subject: Node, Measure: own{node("troupe_stuck_actors")}, Bad: Above, Limit: 0, For: time.Minute,
			Summary: "{value} actors have handled one message for too long",
			Means:   "A part of the node does not get on while others wait for it. That is a fault of the program, or a machine without CPU.",
			Do:      "`troupe tree` shows it with its mailbox. Report it, with what `/debug/pprof/goroutine?debug=2` shows where `--pprof-listen` is set.",
		},
	}
}
