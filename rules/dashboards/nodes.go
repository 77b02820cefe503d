package dashboards

// nodes answers: are the nodes, the store and the broker well? What the store and the broker count is the same on every node, so it is
// not added up over nodes.
func nodes() Dashboard {
	return Dashboard{
		UID: "troupe-nodes", Title: "Troupe: nodes, store and broker",
		Means: "Are the nodes, the store and the broker well?",
		Rows:  []Row{nodesRow(), machineRow(), storeRow(), brokerRow(), bridgesRow(), webhooksRow()},
	}
}

func nodesRow() Row {
	return Row{"Nodes", []Panel{
		{
			Title: "Nodes that show metrics", Kind: Lines, Unit: Count,
			Normal:  "All that you have. A dead node shows no metrics.",
			Queries: []Query{{"count(troupe_store_up)", "nodes"}},
		},
		{
			Title: "Nodes lost in ten minutes", Kind: Lines, Unit: Count, Alert: "node_lost",
			Normal: "Zero. A node that is drained and stopped is not lost.",
		},
		{
			Title: "Nodes declared dead, by the node that did it", Kind: Lines, Unit: Count,
			Normal:  "Zero. Each loss is counted once, by one of the other nodes.",
			Queries: []Query{{"sum by (instance) (increase(troupe_nodes_lost_total[10m]))", "{{instance}}"}},
		},
		{
			Title: "Other nodes, as each sees them", Kind: Lines, Unit: Count, Stacked: true, Absent: "each node is alone",
			Normal:  "`reached`. `suspect`: the store has the node as alive, and this one does not reach it.",
			Queries: []Query{{"sum by (state) (troupe_peers)", "{{state}}"}},
		},
		{
			Title: "Age of the heartbeats", Kind: Lines, Unit: Seconds, Alert: "heartbeat_late",
			Normal: "Up to `worker.heartbeat_interval` (10 s).",
		},
		{
			Title: "Difference of the clocks", Kind: Lines, Unit: Seconds, Alert: "clock_skew",
			Normal: "Milliseconds between the machine's clock and the store's.",
		},
		{
			Title: "Messages between nodes that were dropped", Kind: Lines, Unit: Count, Absent: "none was dropped",
			Normal:  "Since the nodes' starts. Some when a node ends. `unproven` that grows: somebody without a proof calls the port for peers.",
			Queries: []Query{{"sum by (reason) (troupe_peer_messages_dropped)", "{{reason}}"}},
		},
	}}
}

func machineRow() Row {
	return Row{"What a node uses", []Panel{
		{
			Title: "CPU", Kind: Lines, Unit: Count,
			Normal:  "Cores that the node's own process uses. Workers in processes of their own are not counted.",
			Queries: []Query{{perSecond("instance", "process_cpu_seconds_total"), "{{instance}}"}},
		},
		{
			Title: "Memory", Kind: Lines, Unit: Bytes,
			Normal:  "Resident memory of the node's own process. Level over days.",
			Queries: []Query{{"max by (instance) (process_resident_memory_bytes)", "{{instance}}"}},
		},
		{
			Title: "Open files", Kind: Lines, Unit: Share,
			Normal:  "The share of those that the process may open. Each worker with a process needs some.",
			Queries: []Query{{"max by (instance) (process_open_fds) / max by (instance) (process_max_fds)", "{{instance}}"}},
		},
		{
			Title: "Goroutines", Kind: Lines, Unit: Count,
			Normal:  "Level over days. One that grows for ever is a leak.",
			Queries: []Query{{"max by (instance) (go_goroutines)", "{{instance}}"}},
		},
		{
			Title: "Actors", Kind: Lines, Unit: Count,
			Normal:  "Follows the number of workers.",
			Queries: []Query{{"sum by (instance) (troupe_actors)", "{{instance}}"}},
		},
		{
			Title: "Messages in mailboxes", Kind: Lines, Unit: Count,
			Normal:  "Close to zero. `troupe tree` shows which actor does not keep up.",
			Queries: []Query{{"sum by (instance) (troupe_mailbox_messages)", "{{instance}}"}},
		},
		{
			Title: "Live streams", Kind: Lines, Unit: Count,
			Normal: "About one for each browser with the console. A node takes 256. Resets come when a reader is slow, or comes back late.",
			Queries: []Query{
				{"sum by (instance) (troupe_streams)", "{{instance}}"}, {"sum by (instance) (troupe_stream_topics)", "{{instance}} topics"},
				{"sum by (instance) (troupe_stream_resets)", "{{instance}} resets since the start"},
			},
		},
		{
			Title: "Stuck actors", Kind: Lines, Unit: Count, Alert: "actor_stuck",
			Normal: "Zero.",
		},
		{
			Title: "Messages that no actor knew", Kind: Lines, Unit: Count,
			Normal:  "Zero, since the node's start. Others are a fault of the program.",
			Queries: []Query{{"sum by (instance) (troupe_unknown_messages)", "{{instance}}"}},
		},
		{
			Title: "Spans, by result", Kind: Lines, Unit: PerSecond, Stacked: true, Absent: "the nodes do not trace",
			Normal:  "`exported`. `failed`: the collector is away. `dropped`: more spans than it takes; lower `tracing.sample_ratio`.",
			Queries: []Query{{perSecond("result", "troupe_trace_spans_total"), "{{result}}"}},
		},
	}}
}

func storeRow() Row {
	return Row{"Store", []Panel{
		{
			Title: "The store answers", Kind: Lines, Unit: YesNo, Alert: "store_away",
			Normal: "Yes, on every node.",
		},
		{
			Title: "Transaction, 99 %", Kind: Lines, Unit: Seconds, Alert: "store_slow",
			Normal: "Milliseconds: the sync of a disk." + coarse,
		},
		{
			Title: "Transaction", Kind: Lines, Unit: Seconds,
			Normal:  "Of all nodes together." + coarse,
			Queries: quantiles("troupe_store_transaction_seconds"),
		},
		{
			Title: "Transactions", Kind: Lines, Unit: PerSecond, Stacked: true,
			Normal:  "Grows less than the work: under load a transaction has more changes.",
			Queries: []Query{{perSecond("instance", "troupe_store_transaction_seconds_count"), "{{instance}}"}},
		},
		{
			Title: "Changes of one transaction", Kind: Lines, Unit: Count,
			Normal:  "1 at rest, hundreds under load.",
			Queries: []Query{{mean("instance", "troupe_store_batch_changes"), "{{instance}}"}},
		},
		{
			Title: "Oldest change that is not committed", Kind: Lines, Unit: Seconds, Alert: "recorder_stalled",
			Normal: "Below a second.",
		},
		{
			Title: "Executions that are held", Kind: Lines, Unit: Count,
			Normal:  "Zero. Their changes are not committed while all others are, for example because somebody locks their rows.",
			Queries: []Query{{"sum by (instance) (troupe_recorder_held_executions)", "{{instance}}"}},
		},
		{
			Title: "Changes that came too late", Kind: Lines, Unit: PerSecond, Stacked: true, Absent: "none came too late",
			Normal:  "They had no effect. Some after the loss of a worker or a node; otherwise close to zero.",
			Queries: []Query{{perSecond("change", "troupe_stale_writes_total"), "{{change}}"}},
		},
		{
			Title: "Hints, by kind", Kind: Lines, Unit: PerSecond,
			Normal:  "News of other nodes' changes. On SQLite few, on Postgres some for each execution.",
			Queries: []Query{{perSecond("kind", "troupe_store_hints_total"), "{{kind}}"}},
		},
		{
			Title: "Outcomes for callers on other nodes", Kind: Lines, Unit: PerSecond, Stacked: true, Absent: "no caller waited on another node than the one that ran its execution",
			Normal:  "`asked`, `sent` and `taken` are alike. `too_large` is read from the store instead; `crowded` had no room.",
			Queries: []Query{{perSecond("result", "troupe_awaited_outcomes_total"), "{{result}}"}},
		},
	}}
}

func brokerRow() Row {
	return Row{"Broker and dead letters", []Panel{
		{
			Title: "The broker is connected", Kind: Lines, Unit: YesNo, Alert: "broker_away",
			Normal: "Yes, on every node.",
		},
		{
			Title: "The broker is blocked", Kind: Lines, Unit: YesNo, Alert: "broker_blocked",
			Normal: "No. Yes: a memory or disk alarm of RabbitMQ.",
		},
		{
			Title: "Dead letters that wait", Kind: Lines, Unit: Count, Alert: "dlq_buildup",
			Normal: "Zero. For a moment more, after a node with full queues was lost.",
		},
		{
			Title: "Dead letters a minute", Kind: Lines, Unit: PerMinute, Alert: "dlq_rate", Absent: "there were no dead letters",
			Normal: "Zero.",
		},
		{
			Title: "Dead letters, by what became of them", Kind: Lines, Unit: PerSecond, Stacked: true, Absent: "there were no dead letters",
			Normal:  "`stale`: the execution had moved on. `quarantined`: could not be read; `troupe dead-letters` shows them.",
			Queries: []Query{{perSecond("resolution", "troupe_dead_letters_total"), "{{resolution}}"}},
		},
		{
			Title: "From expiry to handling", Kind: Lines, Unit: Seconds, Absent: "there were no dead letters",
			Normal:  "Below a second while a node handles them." + coarse,
			Queries: quantiles("troupe_dead_letter_seconds"),
		},
	}}
}

func bridgesRow() Row {
	const none = "no RabbitMQ, so nobody is told"
	return Row{"Submissions and notices by other ways than the API", []Panel{
		{
			Title: "Taken in, by result", Kind: Lines, Unit: PerSecond, Stacked: true, Absent: "nothing was submitted by RabbitMQ or SQL",
			Normal:  "`accepted`. `existing`: repeated with the same key. `given_back`: the store was away.",
			Queries: []Query{{perSecond("result", "troupe_intake_total"), "{{result}}"}},
		},
		{
			Title: "Notices, by result", Kind: Lines, Unit: PerSecond, Stacked: true, Absent: none,
			Normal:  "`told`; `unheard` where nobody has bound a queue. `put_off`: a queue refused it three times, and it is sent later.",
			Queries: []Query{{perSecond("result", "troupe_notices_total"), "{{result}}"}},
		},
		{
			Title: "Notices that wait", Kind: Lines, Unit: Count, Absent: none,
			Normal:  "Close to zero. It grows while RabbitMQ is away.",
			Queries: []Query{{"max by (job) (troupe_notices_pending)", "{{job}}"}},
		},
		{
			Title: "Oldest notice that waits", Kind: Lines, Unit: Seconds, Alert: "outbox_behind", Absent: none,
			Normal: "Below a second.",
		},
		{
			Title: "Who sends the notices", Kind: Lines, Unit: YesNo, Absent: none,
			Normal:  "One node. Another takes over when it ends.",
			Queries: []Query{{"max by (instance) (troupe_notices_teller)", "{{instance}}"}},
		},
	}}
}

func webhooksRow() Row {
	const none = "nothing was submitted with a webhook"
	return Row{"Webhooks", []Panel{
		{
			Title: "Calls of webhooks, by result", Kind: Lines, Unit: PerSecond, Stacked: true, Absent: none,
			Normal:  "`told`. `failed` calls are repeated; `given_up` ones are not.",
			Queries: []Query{{perSecond("result", "troupe_webhooks_total"), "{{result}}"}},
		},
		{
			Title: "Webhooks that are due", Kind: Lines, Unit: Count,
			Normal:  "Close to zero. It grows while an address does not answer.",
			Queries: []Query{{"max by (job) (troupe_webhooks_pending)", "{{job}}"}},
		},
		{
			Title: "Oldest webhook that is due", Kind: Lines, Unit: Seconds, Alert: "webhooks_behind",
			Normal: "Zero, or some seconds.",
		},
		{
			Title: "Webhooks given up", Kind: Lines, Unit: Count,
			Normal:  "Zero. They stay until their executions are deleted.",
			Queries: []Query{{"max by (job) (troupe_webhooks_given_up)", "{{job}}"}},
		},
		{
			Title: "Time of a call", Kind: Lines, Unit: Seconds, Absent: none,
			Normal:  "Below a second. An address that takes longer than two gets one call at a time.",
			Queries: []Query{{"histogram_quantile(0.99, sum by (le) (rate(troupe_webhook_call_seconds_bucket[5m])))", "99 %"}},
		},
	}}
}
