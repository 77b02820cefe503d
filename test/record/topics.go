package main

import (
	"slices"
)

// topic is a table of the page.
type topic struct {
	title string
	intro string
	rows  []row
}

// row is a line of a table, in a reader's words. Its name says which setting is not the default.
type row struct {
	name   string
	bench  string // the benchmark without "Benchmark"; with its package and ":" in front if that is not test/bench
	show   []shown
	needs  string // a program that the row needs; empty: none
	peer   string // the benchmark of the same run that it is compared with; empty: none
	goal   goal
	missed string // why the goal is missed; shown while it is
}

// shown is one figure of a row. The first figure of a row is compared with the peer's, and a goal without a ratio is for it.
type shown struct {
	unit   string // the benchmark's unit
	digits int    // after the point
	before string // the text before the value
	after  string // the text after the value
}

// goal is what the median of a row should reach. A field that is 0 is no goal.
type goal struct {
	ratio   float64 // the ratio to the peer's figure: at least, for rates, or at most, for times
	cpu     float64 // the largest ratio to the peer's CPU time
	commits float64 // the largest ratio to a bare commit, which the benchmark reports too
	tail    float64 // the largest ratio of the second figure, the p99, to the first, the p50
	atLeast float64
	atMost  float64
}

// commitUnit is the time of a bare commit to the same database, or of a write to the same disk if the store is embedded.
const commitUnit = "commit-p50-ms"

// The figures that benchmarks report.
var (
	rate    = shown{unit: "executions/s", after: "/s"}
	start50 = shown{unit: "start-p50-ms", digits: 1, after: " ms", before: "p50 "}
	start99 = shown{unit: "start-p99-ms", digits: 1, after: " ms", before: "p99 "}
	starts  = []shown{start50, start99}
	rates   = []shown{rate}
)

// busyRows are those of each store, number of nodes and length of runs.
func busyRows() (rows []row) {
	show := []shown{{unit: "busy-%", digits: 1, after: " %"}, {unit: "idle-ms/run", digits: 1, after: " ms", before: "idle "}}
	for _, of := range []struct{ name, bench string }{
		{"SQLite", "Busy/SQLite"},
		{"Postgres alone", "FullBusy/Postgres1"}, {"Postgres alone, three nodes", "FullBusy/Postgres3"},
		{"Postgres and RabbitMQ", "FullBusy/RabbitMQ1"}, {"Postgres and RabbitMQ, three nodes", "FullBusy/RabbitMQ3"},
	} {
		for _, run := range []struct{ name, part string }{{"10 ms", "10ms"}, {"100 ms", "100ms"}, {"1 s", "1s"}} {
			rows = append(rows, row{name: of.name + ", runs of " + run.name, bench: of.bench + "/" + run.part, show: show, goal: goal{atLeast: 95}})
		}
	}
	return rows
}

// choice is the first table: what a user chooses between, by the parts that topics measure.
var choice = struct {
	parts []string
	rows  []choiceRow
}{
	parts: []string{"50,000 loaded before", "16 callers over HTTP", "16 callers that wait, over HTTP", "start at 50 a second over HTTP", "Python echo, 8 workers"},
	rows: []choiceRow{
		{"Troupe on Postgres alone", []string{"Full/Bulk/Postgres", "Full/Callers/PostgresHTTP", "FullRoundTrip/PostgresHTTP/Callers16", "Full/Start/PostgresHTTP", "Full/Python/Postgres"}},
		{"Troupe on Postgres and RabbitMQ", []string{"Full/Bulk/RabbitMQ", "Full/Callers/RabbitMQHTTP", "FullRoundTrip/RabbitMQHTTP/Callers16", "Full/Start/RabbitMQHTTP", "Full/Python/RabbitMQ"}},
		{"Troupe on SQLite, embedded", []string{"SQLite/Bulk", "SQLite/CallersHTTP", "RoundTrip/HTTP/Callers16", "SQLite/StartHTTP", "SQLite/Python"}},
		{"River on Postgres, in process, tuned", []string{"Full/Bulk/River", "Full/Callers/River", "", "Full/Start/River", ""}},
		{"River on SQLite, in process, tuned", []string{riverLite, riverLiteC, "", riverLiteS, ""}},
		{"Asynq on Redis, in process, tuned, each write synced", []string{"Full/Bulk/Asynq", "Full/Callers/Asynq", "", "Full/Start/Asynq", ""}},
		{"Celery with RabbitMQ, results not stored", []string{"", "", "", "", "Full/Python/Celery"}},
	},
}

// choiceRow names the benchmark of each part; empty: there is none.
type choiceRow struct {
	name    string
	benches []string
}

const (
	river  = "Full/Bulk/River"
	riverC = "Full/Callers/River"
	riverS = "Full/Start/River"
	celery = "Full/Python/Celery"

	keptAlive = "Connections/KeptAlive"

	riverLite  = "SQLite/RiverBulk"
	riverLiteC = "SQLite/RiverCallers"
	riverLiteS = "SQLite/RiverStart"
)

var topics = []topic{
	{
		title: "Work that was loaded before",
		intro: "50,000 executions of an action that does nothing are stored while their pool is closed. The clock runs from the opening of the " +
			"pool until every outcome is stored and told. River's client and Asynq's server are started after their jobs were stored; Asynq has 10,000.",
		rows: []row{
			{name: "River", bench: river, show: rates},
			{name: "Postgres alone", bench: "Full/Bulk/Postgres", show: rates, peer: river, goal: goal{ratio: 1.5, cpu: 0.7},
				missed: "It lies around both goals from run to run ([lab/profile.md](lab/profile.md#rows-that-are-found-by-their-place)). Its work is spread: no part of the node has more than a quarter of it."},
			{name: "Postgres and RabbitMQ", bench: "Full/Bulk/RabbitMQ", show: rates, peer: river, goal: goal{ratio: 1},
				missed: "It lies around the goal from run to run. Each execution's placement is stored and goes to RabbitMQ and back, and its notice is sent. With `dispatch: direct` only the notice is ([queues.md](queues.md))."},
			{name: "Postgres and RabbitMQ, with notices off", bench: "Full/Bulk/Quiet", show: rates, peer: river},
			{name: "Postgres and RabbitMQ, with `dispatch: direct`", bench: "Full/Bulk/Beside", show: rates, peer: river},
			{name: "Asynq on Redis, each write synced", bench: "Full/Bulk/Asynq", show: rates, needs: "redis", peer: river},
			{name: "Asynq on Redis with its defaults: a crash loses what Redis has not saved", bench: "Full/Bulk/AsynqUnsynced", show: rates, needs: "redis", peer: river},
			{name: "River on SQLite", bench: riverLite, show: rates},
			{name: "SQLite", bench: "SQLite/Bulk", show: rates, peer: riverLite, goal: goal{ratio: 15}},
		},
	},
	{
		title: "16 callers, one by one",
		intro: "16 callers submit 20,000 executions of an action that does nothing, one by one, while they are worked off, until every " +
			"outcome is stored and told. The callers of River and Asynq are in their processes; Asynq's enqueue 4,000 tasks.",
		rows: []row{
			{name: "River, in process", bench: riverC, show: rates},
			{name: "Postgres alone, over HTTP", bench: "Full/Callers/PostgresHTTP", show: rates, peer: riverC, goal: goal{ratio: 3},
				missed: "River's callers are in its process. Here the HTTP client of the callers and net/http take as much of the two cores as the executions do ([lab/profile.md](lab/profile.md), [lab/http.md](lab/http.md))."},
			{name: "Postgres alone, in process", bench: "Full/Callers/Postgres", show: rates, peer: riverC},
			{name: "Postgres and RabbitMQ, over HTTP", bench: "Full/Callers/RabbitMQHTTP", show: rates, peer: riverC, goal: goal{ratio: 2.5},
				missed: "Beside HTTP, each execution pays for a placement that is stored and for a message to RabbitMQ and back ([lab/profile.md](lab/profile.md)). `dispatch: direct` leaves those out ([queues.md](queues.md))."},
			{name: "Postgres and RabbitMQ, in process", bench: "Full/Callers/RabbitMQ", show: rates, peer: riverC},
			{name: "the same, each with an idempotency key", bench: "Full/Callers/Keys", show: rates, peer: riverC},
			{name: "the same, with notices off", bench: "Full/Callers/Quiet", show: rates, peer: riverC},
			{name: "the same, with `dispatch: direct`", bench: "Full/Callers/Beside", show: rates, peer: riverC},
			{name: "Asynq on Redis, in process, each write synced", bench: "Full/Callers/Asynq", show: rates, needs: "redis", peer: riverC},
			{name: "Asynq on Redis with its defaults: a crash loses what Redis has not saved", bench: "Full/Callers/AsynqUnsynced", show: rates, needs: "redis", peer: riverC},
			{name: "River on SQLite, in process", bench: riverLiteC, show: rates},
			{name: "SQLite, over HTTP", bench: "SQLite/CallersHTTP", show: rates, peer: riverLiteC, goal: goal{ratio: 12},
				missed: "River's callers are in its process. HTTP takes half of what the two cores can do: see the row in process ([lab/http.md](lab/http.md))."},
			{name: "SQLite, in process", bench: "SQLite/Callers", show: rates, peer: riverLiteC},
		},
	},
	{
		title: "Ways to connect",
		intro: "16 callers submit 20,000 executions of an action that does nothing, one by one, over HTTP to a node with the embedded store. Callers and " +
			"node are one process, so the CPU time is that of both.",
		rows: []row{
			{name: "HTTP/1.1, 16 connections that are kept alive, as Troupe's clients do", bench: keptAlive, show: rates},
			{name: "HTTP/1.1, a new connection for each call", bench: "Connections/New", show: rates, peer: keptAlive},
			{name: "HTTP/2 in clear, one connection: a node does not offer it, so the benchmark serves the node's handler", bench: "Connections/HTTP2", show: rates, peer: keptAlive},
		},
	},
	{
		title: "Callers that wait",
		intro: "Each caller submits an execution of an action that does nothing, waits for its result, and submits the next one. Beside one " +
			"caller stands a bare commit of one row to the same database, and for SQLite a write of a page to the same disk.",
		rows: slices.Concat(
			[]row{{name: "16 callers that do not wait, Postgres alone, in process", bench: accepting, show: rates}},
			waiting("Postgres alone, in process", "FullRoundTrip/Postgres", goal{commits: 3}, goal{ratio: 0.5}),
			waiting("Postgres alone, over HTTP", "FullRoundTrip/PostgresHTTP", goal{}, goal{}),
			waiting("Postgres and RabbitMQ, in process", "FullRoundTrip/RabbitMQ", goal{}, goal{}),
			waiting("Postgres and RabbitMQ, over HTTP", "FullRoundTrip/RabbitMQHTTP", goal{}, goal{}),
			waiting("SQLite, in process", "RoundTrip/Go", goal{}, goal{}),
			waiting("SQLite, over HTTP", "RoundTrip/HTTP", goal{}, goal{}),
		),
	},
	{
		title: "From submission to start",
		intro: "50 executions a second for ten seconds, on a node that does nothing else: the time from submission to the start of the action.",
		rows: []row{
			{name: "River, in process, tuned: it looks for jobs every millisecond", bench: riverS, show: starts},
			{name: "River, in process, with its defaults", bench: "Full/Start/RiverDefault", show: starts},
			{name: "Postgres alone, over HTTP", bench: "Full/Start/PostgresHTTP", show: starts, peer: riverS},
			{name: "Postgres alone, in process", bench: "Full/Start/Postgres", show: starts, peer: riverS, goal: goal{ratio: 1, tail: 3},
				missed: "A start is counted up to the transaction that claims it, so its p50 has no commit in it. One in a hundred waits for a core: where the program and its Postgres go first, the p99 is 1.7 times the p50 ([lab/waits.md](lab/waits.md#the-slowest-of-a-hundred-starts))."},
			{name: "Postgres and RabbitMQ, over HTTP", bench: "Full/Start/RabbitMQHTTP", show: starts, peer: riverS},
			{name: "Postgres and RabbitMQ, in process", bench: "Full/Start/RabbitMQ", show: starts, peer: riverS},
			{name: "the same, with `dispatch: direct`", bench: "Full/Start/Beside", show: starts, peer: riverS},
			{name: "Asynq on Redis, in process, tuned, each write synced", bench: "Full/Start/Asynq", show: starts, needs: "redis", peer: riverS},
			{name: "River on SQLite, in process, tuned", bench: riverLiteS, show: starts},
			{name: "SQLite, over HTTP", bench: "SQLite/StartHTTP", show: starts, peer: riverLiteS, goal: goal{ratio: 1.0 / 6}},
			{name: "SQLite, in process", bench: "SQLite/Start", show: starts, peer: riverLiteS},
		},
	},
	{
		title: "Python",
		intro: "10,000 echoes by 8 warm Python workers, submitted in one call, until every result is stored and told. Celery (prefork, 8 " +
			"processes) stores no results, and has its tasks loaded before.",
		rows: []row{
			{name: "Celery with RabbitMQ", bench: celery, show: rates, needs: "celery"},
			{name: "Postgres alone", bench: "Full/Python/Postgres", show: rates, peer: celery, goal: goal{ratio: 2}},
			{name: "Postgres and RabbitMQ", bench: "Full/Python/RabbitMQ", show: rates, peer: celery},
			{name: "SQLite", bench: "SQLite/Python", show: rates, peer: celery, goal: goal{ratio: 2}},
		},
	},
	{
		title: "Load that is kept up",
		intro: "Work as fast as a node on Postgres and RabbitMQ takes it, for as long as TROUPE_SUSTAINED says: how much of the rate in the first fifth of the " +
			"time the last fifth has, the rates of both halves, and how old the oldest untold outcome became in each; at most 1 s is the aim.",
		rows: []row{
			{name: "Postgres and RabbitMQ, ten minutes (`TROUPE_SUSTAINED=10m`)", bench: "FullSustained", show: []shown{
				{unit: "kept-%", after: " %"}, {unit: "1st-half/s", after: "/s", before: "halves "}, {unit: "2nd-half/s", after: "/s"},
				{unit: "1st-half-age-ms", after: " ms", before: "oldest untold "}, {unit: "2nd-half-age-ms", after: " ms", before: "and "},
			}, goal: goal{atLeast: 90}},
		},
	},
	{
		title: "Workers that stay busy",
		intro: "Idempotent runs of one length, all submitted in one call, for six workers in all: the share of their time in which the workers run the " +
			"action, until the last run begins, and how long a worker idles between two runs.",
		rows: busyRows(),
	},
	{
		title: "A store that grows",
		intro: "20,000 executions of an action that does nothing, loaded and measured as in the first table, by turns on a node that has executed " +
			"1,000,000 before and on one that has just begun, five times each. The ratio of the two medians is that of one round.",
		rows: []row{
			{name: "Postgres alone", bench: "FullGrown/Postgres", show: overTime, goal: goal{atLeast: 0.9},
				missed: "Indexes of a million rows have a level more, and more of their pages are written ([lab/growth.md](lab/growth.md))."},
			{name: "Postgres and RabbitMQ", bench: "FullGrown/RabbitMQ", show: overTime, goal: goal{atLeast: 0.9}},
			{name: "SQLite", bench: "Grown/SQLite", show: overTime, goal: goal{atLeast: 0.9}},
		},
	},
	{
		title: "Recording",
		intro: "20,000 executions of an action that does nothing, stored in five calls while their pool is cordoned, and then worked off: by turns on a node that " +
			"records and on one that does not, thirty times each. Recording is the journal, the counts by minute, and the keyframes; it is switched off in the code of the benchmark.",
		rows: []row{
			{name: "Postgres alone", bench: "FullRecording/Postgres", show: recorded, goal: goal{atLeast: 0.98}},
			{name: "Postgres and RabbitMQ", bench: "FullRecording/RabbitMQ", show: recorded, goal: goal{atLeast: 0.98}},
			{name: "SQLite", bench: "Recording/SQLite", show: recorded, goal: goal{atLeast: 0.98}},
		},
	},
	{
		title: "Growth",
		intro: "20,000 executions of an action that does nothing on Postgres and RabbitMQ, **with notices off**, worked off while they are " +
			"submitted in two calls; then the time from submission to start at 50 a second. 200 workers in all, unless the row says otherwise.",
		rows: []row{
			{name: "1 pool", bench: "FullGrowth/Pools1", show: grown},
			{name: "10 pools of 20 workers", bench: "FullGrowth/Pools10", show: grown, peer: "FullGrowth/Pools1"},
			{name: "100 pools of 2 workers", bench: "FullGrowth/Pools100", show: grown, peer: "FullGrowth/Pools1"},
			{name: "1 pool of 1,000 workers", bench: "FullGrowth/Workers1000", show: grown, peer: "FullGrowth/Pools1"},
			{name: "behind 1,000,000 that wait", bench: "FullGrowth/Waiting1M", show: grown, peer: "FullGrowth/Pools1"},
			{name: "behind 1,000,000 that have ended", bench: "FullGrowth/Finished1M", show: grown, peer: "FullGrowth/Pools1", goal: goal{ratio: 0.9}},
			{name: "1 pool, with notices told", bench: "FullToldGrowth/Pools1Told", show: grown, peer: "FullToldGrowth/Pools1Quiet"},
			{name: "1 pool, with notices off, by turns with them", bench: "FullToldGrowth/Pools1Quiet", show: grown},
		},
	},
	{
		title: "Several nodes",
		intro: "Nodes of one machine, with 96 workers in all, over HTTP, on Postgres and RabbitMQ, by the store's clock: 20,000 executions in " +
			"calls of 1,000, and 10,000 by 16 callers one by one.",
		rows: []row{
			{name: "one node, in bulk", bench: "FullToldSpread/Bulk1", show: rates},
			{name: "three nodes, in bulk", bench: "FullToldSpread/Bulk3", show: rates, peer: "FullToldSpread/Bulk1"},
			{name: "one node, 16 callers", bench: "FullToldSpread/Callers1", show: rates},
			{name: "three nodes, 16 callers", bench: "FullToldSpread/Callers3", show: rates, peer: "FullToldSpread/Callers1"},
		},
	},
	{
		title: "Rescue",
		intro: "From the blow until the idempotent run that it hit is placed again, over 30 blows each. Of three nodes with leases of 4 s the " +
			"one that the run is on is struck.",
		rows: []row{
			{name: "a worker's process is killed, another worker is free", bench: "FullRescue/ProcessKilled", show: replaced},
			{name: "the only worker's process is killed", bench: "FullRescue/OnlyProcessKilled", show: replaced},
			{name: "a node is killed", bench: "FullRescue/NodeKilled", show: replaced, goal: goal{atMost: 1500}},
			{name: "a node is frozen", bench: "FullRescue/NodeFrozen", show: replaced, goal: goal{atMost: 6000}},
			{name: "a Go handler panics, until its worker is ready", bench: "PanicRecovery", show: []shown{
				{unit: "ready-p50-us", after: " µs", before: "p50 "}, {unit: "ready-p99-us", after: " µs", before: "p99 "},
			}, goal: goal{atMost: 150}},
			{name: "a worker's process is killed, until that is noticed", bench: "KillRecovery", show: []shown{
				{unit: "noticed-p50-ms", digits: 1, after: " ms", before: "p50 "}, {unit: "noticed-max-ms", digits: 1, after: " ms", before: "at most "},
			}, goal: goal{atMost: 5}},
		},
	},
	{
		title: "Console",
		intro: "A node of the real program with 1,000,000 ended executions, and a week of what nodes record, answers what the console's pages ask over HTTP. There are more than 100 questions, each asked 20 times, " +
			"one after another, so that no answer is one that was kept. Shown are the p95 of the slowest question, and of the middle one. The slowest search for a text, which may take 300 ms, stands apart.",
		rows: []row{
			{name: "Postgres alone", bench: "FullConsole/Postgres", show: asked, goal: goal{atMost: 100}},
			{name: "SQLite", bench: "Console/SQLite", show: asked, goal: goal{atMost: 100}},
		},
	},
	{
		title: "Parts",
		intro: "Placement and the roster decide over 1,000 workers and 100,000 sessions. A list page has 100 of 1,000,000 stored executions.",
		rows: []row{
			{name: "one placement without a session", bench: "rules/placement:Pick/no_session", show: operation, goal: goal{atMost: 2000}},
			{name: "one placement with a session", bench: "rules/placement:Pick/strict", show: operation, goal: goal{atMost: 2000}},
			{name: "one step of the roster without sessions", bench: "rules/roster:Step/sessions=0%", show: operation, goal: goal{atMost: 2000}},
			{name: "one step of the roster with sessions", bench: "rules/roster:Step/sessions=100%", show: operation, goal: goal{atMost: 2000}},
			{name: "a list page on SQLite, of all", bench: "store/sqlite:List/all", show: operation, goal: goal{atMost: 20e6}},
			{name: "a list page on SQLite, by worker", bench: "store/sqlite:List/worker", show: operation, goal: goal{atMost: 20e6}},
			{name: "an echo of a warm Python worker, without a node", bench: "process/check:RoundTrip/python", show: operation},
		},
	},
	{
		title: "Size",
		intro: "",
		rows: []row{
			{name: "10,000 more idle Go workers: resident, in the mean of a minute and at most; and an idle node", bench: "Idle", show: []shown{
				{unit: "resident-MiB-more", after: " MiB more"}, {unit: "resident-MiB-more-at-most", after: " MiB more"},
				{unit: "resident-MiB", after: " MiB", before: "idle node "},
			}, goal: goal{atMost: 50}},
			{name: "1,000,000 executions in one run: resident at the end, and after a tenth", bench: "Day", show: []shown{
				{unit: "resident-MiB-end", after: " MiB"}, {unit: "resident-MiB-tenth", after: " MiB"}, rate,
			}},
			{name: "20 open pages (their streams and what they ask beside), with 1,000 Go workers, 1,000,000 executions and 500 changes a second on SQLite: percent of a core more", bench: "Streams", show: []shown{
				{unit: "streams-cpu-%", digits: 1, after: " %"}, {unit: "streams-MiB-more", after: " MiB more"}, {unit: "load-cpu-%", digits: 1, after: " %", before: "without them "},
			}, goal: goal{atMost: 2},
				missed: "It lies around the goal from run to run ([lab/console.md](lab/console.md#what-twenty-open-pages-cost))."},
			{name: "an idle node: percent of a core", bench: "FullIdle/Node", show: []shown{
				{unit: "node-cpu-%", digits: 1, after: " %", before: "node "}, {unit: "postgres-cpu-%", digits: 1, after: " %", before: "Postgres "},
				{unit: "rabbitmq-cpu-%", digits: 1, after: " %", before: "RabbitMQ "}, {unit: "transactions/s", after: " transactions/s"},
			}},
			{name: "each of three idle nodes: percent of a core", bench: "FullIdle/Node3", show: []shown{
				{unit: "node-cpu-%", digits: 1, after: " %", before: "node "}, {unit: "postgres-cpu-%", digits: 1, after: " %", before: "Postgres "},
				{unit: "rabbitmq-cpu-%", digits: 1, after: " %", before: "RabbitMQ "}, {unit: "transactions/s", after: " transactions/s"},
			}},
		},
	},
}

const accepting = "FullRoundTrip/Accepting"

// waiting are the rows of 1, 4, 16 and 64 waiting callers, with the goals of one and of 16 callers.
func waiting(name, bench string, ofOne, of16 goal) []row {
	rows := []row{{name: name + ": 1 caller", bench: bench + "/Callers1", show: []shown{trip50, trip99, bareCommit}, goal: ofOne,
		missed: "The submission with its claim and the outcome take three and a half bare commits in the store alone, without a node ([lab/waits.md](lab/waits.md#what-the-store-alone-takes)). The rest is the hand-overs between goroutines ([lab/profile.md](lab/profile.md))."}}
	for _, callers := range []string{"4", "16", "64"} {
		r := row{name: name + ": " + callers + " callers", bench: bench + "/Callers" + callers, show: []shown{rate, trip50, trip99}}
		if callers == "16" {
			r.goal = of16
			if of16.ratio > 0 {
				r.peer = accepting
			}
		}
		rows = append(rows, r)
	}
	return rows
}

var (
	trip50     = shown{unit: "trip-p50-ms", digits: 1, after: " ms", before: "p50 "}
	trip99     = shown{unit: "trip-p99-ms", digits: 1, after: " ms", before: "p99 "}
	bareCommit = shown{unit: commitUnit, digits: 2, after: " ms", before: "a bare commit "}
)

var (
	operation = []shown{{unit: "ns/op", after: " ns"}}
	grown     = []shown{rate, start50, start99}
	overTime  = []shown{
		{unit: "of-first-rate", digits: 2, after: " of the rate of an empty store"}, {unit: "executions/s", after: "/s", before: "grown "},
		{unit: "first-executions/s", after: "/s", before: "empty "},
	}
	recorded = []shown{
		{unit: "of-unrecorded-finishes", digits: 3, after: " of the rate of outcomes without recording"},
		{unit: "of-unrecorded-submits", digits: 3, after: " of the rate of submissions"}, {unit: "of-unrecorded-cpu", digits: 3, after: " of the CPU time"},
		{unit: "executions/s", after: "/s", before: "outcomes "}, {unit: "submits/s", after: "/s", before: "submissions "},
	}
	asked = []shown{
		{unit: "slowest-p95-ms", digits: 1, after: " ms"}, {unit: "middle-p95-ms", digits: 1, after: " ms", before: "middle "},
		{unit: "text-p95-ms", digits: 1, after: " ms", before: "a text "},
	}
	replaced = []shown{
		{unit: "replaced-p50-ms", after: " ms", before: "p50 "}, {unit: "replaced-max-ms", after: " ms", before: "at most "},
	}
)
