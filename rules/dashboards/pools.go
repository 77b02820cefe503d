package dashboards

// pools answers: can the workers work, and does the work reach them?
func pools() Dashboard {
	return Dashboard{
		UID: "troupe-pools", Title: "Troupe: pools and workers", Pools: true,
		Means: "Can the workers work, and does the work reach them?",
		Rows:  []Row{workersRow(), failuresRow(), placementRow(), sessionsRow()},
	}
}

func workersRow() Row {
	return Row{"Workers", []Panel{
		{
			Title: "By state", Kind: Lines, Unit: Count, Stacked: true,
			Normal:  "`ready` and `busy`. The others are on their way in or out, or degraded.",
			Queries: []Query{{"sum by (state) (troupe_workers)", "{{state}}"}},
		},
		{
			Title: "By health grade", Kind: Lines, Unit: Count, Stacked: true,
			Normal:  "`healthy`. Work goes to degraded workers after these. Unhealthy ones are given none.",
			Queries: []Query{{"sum by (grade) (troupe_workers_by_grade)", "{{grade}}"}},
		},
		{
			Title: "Busy", Kind: Lines, Unit: Share,
			Normal:  "The share of workers that run something. Near 100 % for long, with a backlog: the pool is too small.",
			Queries: []Query{{`sum by (pool) (troupe_workers{state="busy"}) / sum by (pool) (troupe_workers)`, "{{pool}}"}},
		},
		{
			Title: "Workers that take work", Kind: Lines, Unit: Count, Alert: "no_active_workers",
			Normal: "All of the pool. At zero nothing of the pool runs.",
		},
		{
			Title: "Unhealthy", Kind: Lines, Unit: Share, Alert: "unhealthy_workers",
			Normal: "None.",
		},
		{
			Title: "Broken pools", Kind: Lines, Unit: YesNo, Alert: "pool_broken",
			Normal: "None. Yes: on some node every worker of the pool keeps failing to start.",
		},
	}}
}

func failuresRow() Row {
	const none = "no worker has failed"
	return Row{"Starts and ends of workers", []Panel{
		{
			Title: "Started again after a failure", Kind: Lines, Unit: PerMinute, Alert: "workers_restarting",
			Normal: "Close to zero.",
		},
		{
			Title: "Replaced without a failure", Kind: Lines, Unit: PerSecond, Absent: "no worker was replaced",
			Normal:  "Recycled, reloaded, closed, or ended by an operator.",
			Queries: []Query{{perSecond("pool", "troupe_worker_replacements_total"), "{{pool}}"}},
		},
		{
			Title: "Time without a failed worker, 90 %", Kind: Lines, Unit: Seconds, Absent: none,
			Normal:  "From the loss of a worker until its slot is ready again: the start of its program, and the delay before." + coarse,
			Queries: []Query{{quantile("0.9", "pool", "troupe_worker_downtime_seconds"), "{{pool}}"}},
		},
		{
			Title: "Delay before a start, 90 %", Kind: Lines, Unit: Seconds, Absent: none,
			Normal:  "Zero at the first failure. It grows while a worker keeps failing." + coarse,
			Queries: []Query{{quantile("0.9", "pool", "troupe_worker_restart_delay_seconds"), "{{pool}}"}},
		},
		{
			Title: "Changes of state, by reason", Kind: Lines, Unit: PerSecond,
			Normal:  "Mostly `checkout` and `checkin_success`: work. See lifecycle.md for the others.",
			Queries: []Query{{perSecond("reason", "troupe_worker_transitions_total"), "{{reason}}"}},
		},
		{
			Title: "Mean time in a state", Kind: Lines, Unit: Seconds,
			Normal:  "Counted when a worker leaves the state. `initializing` is the start of a program; `terminating` is how long its end takes.",
			Queries: []Query{{mean("state", "troupe_worker_state_seconds"), "{{state}}"}},
		},
		{
			Title: "Programs not started for a shortage", Kind: Lines, Unit: PerSecond, Absent: "the node lacks nothing",
			Normal:  "Zero. The node lacks open files, memory or processes; the runs are placed again.",
			Queries: []Query{{perSecond("pool", "troupe_worker_start_shortages_total"), "{{pool}}"}},
		},
		{
			Title: "Go handlers that do not return", Kind: Lines, Unit: Count, Absent: "every handler returned in time",
			Normal:  "Zero. Each holds its goroutine after its context has ended: the handler ignores the context.",
			Queries: []Query{{"sum by (pool) (troupe_leaked_handlers)", "{{pool}}"}},
		},
		{
			Title: "Replies to no request", Kind: Lines, Unit: PerSecond, Absent: "every reply had its request",
			Normal:  "Zero. `troupe worker check` tests a program against the protocol.",
			Queries: []Query{{perSecond("pool", "troupe_worker_unknown_replies_total"), "{{pool}}"}},
		},
	}}
}

func placementRow() Row {
	return Row{"Placement", []Panel{
		{
			Title: "Placements, by health grade of the worker", Kind: Lines, Unit: PerSecond, Stacked: true, Absent: "nothing was placed",
			Normal:  "On healthy workers. `unhealthy`: there was no other.",
			Queries: []Query{{perSecond("grade", "troupe_placements_total"), "{{grade}}"}},
		},
		{
			Title: "Placements of one decision", Kind: Lines, Unit: Count, Absent: "nothing was placed",
			Normal:  "1 while single executions come. More under load: the router places in groups.",
			Queries: []Query{{mean("pool", "troupe_router_batch_placements"), "{{pool}}"}},
		},
		{
			Title: "Placed ahead, on the workers", Kind: Lines, Unit: Count,
			Normal:  "With a backlog, some for each worker; up to 20 where runs are short. Otherwise zero.",
			Queries: []Query{{"sum by (pool) (troupe_worker_queue_depth)", "{{pool}}"}},
		},
		{
			Title: "Taken back, by reason", Kind: Lines, Unit: PerSecond, Absent: "nothing was taken back",
			Normal:  "Placements that were given up unstarted and made again elsewhere. Some when workers or nodes end; otherwise zero.",
			Queries: []Query{{perSecond("reason", "troupe_take_backs_total"), "{{reason}}"}},
		},
		{
			Title: "Dispatch echo, 99 %", Kind: Lines, Unit: Seconds,
			Normal:  "A probe that goes the way of placements, every 30 s. Milliseconds." + coarse,
			Queries: []Query{{quantile("0.99", "pool", "troupe_dispatch_echo_seconds"), "{{pool}}"}},
		},
		{
			Title: "Share of workers whose queue does not deliver", Kind: Lines, Unit: Share, Alert: "workers_unattached",
			Normal: "Zero. The broker refuses to declare or to read the queues of these workers.",
		},
		{
			Title: "Late dispatch echoes in five minutes", Kind: Lines, Unit: Count, Alert: "dispatch_late",
			Normal: "Zero.",
		},
		{
			Title: "Routers, by mode", Kind: Lines, Unit: Count, Stacked: true,
			Normal:  "Each node counts once for each of its pools. With several nodes one `leading` for each pool, and the others `following`; `alone`: a single node, or one that reaches no other.",
			Queries: []Query{{"sum by (mode) (troupe_pool_router)", "{{mode}}"}},
		},
		{
			Title: "Reports to routers on other nodes", Kind: Lines, Unit: PerSecond, Absent: "no node follows another",
			Normal:  "`taken`. `refused` for a moment when the router moves; `failed` when the nodes do not reach each other.",
			Queries: []Query{{perSecond("result", "troupe_pool_reports_total"), "{{result}}"}},
		},
	}}
}

func sessionsRow() Row {
	return Row{"Health checks and sessions", []Panel{
		{
			Title: "Health checks, by result", Kind: Lines, Unit: PerSecond, Absent: "nothing was checked yet",
			Normal:  "`passed`. Idle workers are asked every 30 s.",
			Queries: []Query{{perSecond("result", "troupe_probes_total"), "{{result}}"}},
		},
		{
			Title: "Time to the answer, 99 %", Kind: Lines, Unit: Seconds, Absent: "nothing was checked yet",
			Normal:  "Milliseconds; a worker is asked while it is idle." + coarse,
			Queries: []Query{{quantile("0.99", "pool", "troupe_probe_seconds"), "{{pool}}"}},
		},
		{
			Title: "Executions with a session, by result", Kind: Lines, Unit: PerSecond, Stacked: true, Absent: "no sessions are used",
			Normal:  "`hit`: on the worker that has the state; `opened`: the first. `lost` follows the end of a worker, `expired` a pause longer than `worker.session_timeout`.",
			Queries: []Query{{perSecond("result", "troupe_session_affinity_total"), "{{result}}"}},
		},
		{
			Title: "Stored states that are set aside", Kind: Lines, Unit: Count, Alert: "session_state_broken",
			Normal: "Zero. Each ended three workers in a row that it was given back to.",
		},
		{
			Title: "Snapshots of sessions, by result", Kind: Lines, Unit: PerSecond, Stacked: true, Absent: "no snapshots are made",
			Normal:  "`saved`. `late`: the program answered too late, and the snapshot was dropped.",
			Queries: []Query{{perSecond("result", "troupe_session_snapshots_total"), "{{result}}"}},
		},
	}}
}
