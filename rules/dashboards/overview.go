package dashboards

// overview answers: does the work get done, how fast, and what waits? The gauges of the store are the same on every node, so they are
// not added up over nodes.
func overview() Dashboard {
	return Dashboard{
		UID: "troupe-overview", Title: "Troupe: overview", Pools: true,
		Means: "Does the work get done, how fast, and what waits?",
		Rows:  []Row{presentRow(), outcomesRow(), timesRow(), waitingRow()},
	}
}

func presentRow() Row {
	const waits = `{status=~"requested|scheduled"}`
	return Row{"Now", []Panel{
		{
			Title: "Running", Kind: Number, Unit: Count,
			Normal:  "Executions that run now. At most as many as there are workers.",
			Queries: []Query{{`sum(max by (job, pool) (troupe_executions{status="running"}))`, "running"}},
		},
		{
			Title: "Waiting", Kind: Number, Unit: Count,
			Normal:  "Executions that are due and have not started. A backlog is normal if it falls again.",
			Queries: []Query{{"sum(max by (job, pool, status) (troupe_executions" + waits + "))", "waiting"}},
		},
		{
			Title: "Oldest that waits", Kind: Number, Unit: Seconds,
			Normal:  "Time since the oldest execution that waits and is due was requested; 0: none is. `troupe why ID` says what it waits for.",
			Queries: []Query{{"max(troupe_executions_oldest_seconds" + waits + ")", "oldest"}},
		},
		{
			Title: "Completed", Kind: Number, Unit: Share,
			Normal:  "The share of completed executions among those that ended.",
			Absent:  "nothing ended",
			Queries: []Query{{`sum(rate(troupe_executions_total{status="completed"}` + window + ")) / sum(rate(troupe_executions_total" + window + "))", "completed"}},
		},
	}}
}

func outcomesRow() Row {
	return Row{"What ends, and how", []Panel{
		{
			Title: "Ended, by outcome", Kind: Lines, Unit: PerSecond, Stacked: true,
			Normal:  "Executions that ended. A retry is an execution of its own.",
			Absent:  "nothing has ended yet",
			Queries: []Query{{perSecond("status", "troupe_executions_total"), "{{status}}"}},
		},
		{
			Title: "Not completed, by error code", Kind: Lines, Unit: PerSecond, Stacked: true,
			Normal:  "`other` is a code of an action's own. `troupe list --status failed` names the executions.",
			Absent:  "everything has completed",
			Queries: []Query{{perSecond("code", `troupe_executions_total{status!="completed"}`), "{{code}}"}},
		},
		{
			Title: "Ended, by pool", Kind: Lines, Unit: PerSecond, Stacked: true,
			Normal:  "Which pools do the work. A pool that falls to zero while work waits for it does not deliver.",
			Absent:  "nothing has ended yet",
			Queries: []Query{{perSecond("pool", "troupe_executions_total"), "{{pool}}"}},
		},
		{
			Title: "Timeouts a minute", Kind: Lines, Unit: PerMinute, Alert: "high_execution_timeout_rate",
			Normal: "Executions that ended for a timeout of any kind. Zero, or close to it.",
		},
		{
			Title: "Given up as poisoned in ten minutes", Kind: Lines, Unit: Count, Alert: "executions_poisoned",
			Normal: "Zero. Each has ended three workers, or five nodes ended while they ran it.",
		},
		{
			Title: "Timeouts, by code", Kind: Lines, Unit: PerSecond, Stacked: true,
			Normal:  "`timeout`: it ran for too long. `stalled`: it gave no sign of life. The others waited for too long.",
			Queries: []Query{{perSecond("code", "troupe_execution_timeouts_total"), "{{code}}"}},
		},
		{
			Title: "Retries for each execution that ends", Kind: Lines, Unit: Share, Alert: "retry_rate",
			Normal: "Close to zero. Counted where at least 20 executions of a pool ended in five minutes.",
			Absent: "no retries, or too few executions",
		},
		{
			Title: "Retries, by reason", Kind: Lines, Unit: PerSecond,
			Normal:  "Retries that were made, and those that completed. Where the second does not follow the first, retries do not help.",
			Absent:  "nothing was retried",
			Queries: []Query{{perSecond("reason", "troupe_retries_total"), "made: {{reason}}"}, {perSecond("reason", "troupe_retries_succeeded_total"), "completed: {{reason}}"}},
		},
		{
			Title: "Retries, by error code", Kind: Lines, Unit: PerSecond, Stacked: true,
			Normal:  "The errors after which retries were made.",
			Absent:  "nothing was retried",
			Queries: []Query{{perSecond("code", "troupe_retries_total"), "{{code}}"}},
		},
	}}
}

func timesRow() Row {
	const none = "nothing has started yet"
	return Row{"How long it takes", []Panel{
		{
			Title: "From due to running", Kind: Lines, Unit: Seconds, Absent: none,
			Normal:  "Milliseconds while workers are free. It grows with the backlog when all are busy." + coarse,
			Queries: quantiles("troupe_execution_scheduling_seconds"),
		},
		{
			Title: "On the worker's queue", Kind: Lines, Unit: Seconds, Absent: none,
			Normal:  "From placed to running. Without RabbitMQ only executions of sessions, and those that are placed when they are submitted, have this part." + coarse,
			Queries: quantiles("troupe_execution_queue_wait_seconds"),
		},
		{
			Title: "Run time", Kind: Lines, Unit: Seconds, Absent: none,
			Normal:  "As long as the actions take. A jump without a change of code points at what they call." + coarse,
			Queries: quantiles("troupe_execution_run_seconds"),
		},
		{
			Title: "From due to running, 90 %, by pool", Kind: Lines, Unit: Seconds, Absent: none,
			Normal:  "The pool on top has too few workers for its work, or does not deliver." + coarse,
			Queries: []Query{{quantile("0.9", "pool", "troupe_execution_scheduling_seconds"), "{{pool}}"}},
		},
		{
			Title: "Run time, 90 %, by pool", Kind: Lines, Unit: Seconds, Absent: none,
			Normal:  "Nine of ten runs of the pool are shorter." + coarse,
			Queries: []Query{{quantile("0.9", "pool", "troupe_execution_run_seconds"), "{{pool}}"}},
		},
		{
			Title: "Mean run time, by outcome", Kind: Lines, Unit: Seconds, Absent: none,
			Normal:  "Failures that take as long as their timeout wait for something that does not answer.",
			Queries: []Query{{mean("status", "troupe_execution_run_seconds"), "{{status}}"}},
		},
	}}
}

func waitingRow() Row {
	return Row{"What has not ended", []Panel{
		{
			Title: "By status", Kind: Lines, Unit: Count, Stacked: true,
			Normal:  "`requested` waits for a worker, `scheduled` lies on a worker's queue. Counted up to 100,000 in each pool and status.",
			Queries: []Query{{"sum by (status) (max by (job, pool, status) (troupe_executions))", "{{status}}"}},
		},
		{
			Title: "Waiting, by pool", Kind: Lines, Unit: Count, Stacked: true,
			Normal:  "A pool whose backlog grows for hours needs more workers, or less work.",
			Queries: []Query{{`sum by (pool) (max by (job, pool, status) (troupe_executions{status=~"requested|scheduled"}))`, "{{pool}}"}},
		},
		{
			Title: "Age of the oldest, by status", Kind: Lines, Unit: Seconds,
			Normal:  "Since it was requested. A line that climbs with the time is one execution that does not move: `troupe why ID`.",
			Queries: []Query{{"max by (status) (troupe_executions_oldest_seconds)", "{{status}}"}},
		},
		{
			Title: "Oldest placement that has not started", Kind: Lines, Unit: Seconds,
			Normal:  "Below `executor.claim_timeout` (15 s): after that a placement is taken back.",
			Queries: []Query{{"max by (pool) (max by (job, pool) (troupe_executions_scheduled_oldest_seconds))", "{{pool}}"}},
		},
		{
			Title: "Oldest execution that should have started", Kind: Lines, Unit: Seconds, Alert: "stale_executions",
			Normal: "Seconds. A placement is taken back after `executor.claim_timeout` (15 s), and what is due while a worker is ready is placed at once.",
		},
	}}
}
