package differences

import (
	"math"

	"github.com/troupe-run/troupe/rules/roster"
)

// Of is what a difference is about.
type Of string

// The things that are compared.
const (
	Error   Of = "error"   // an action's executions with one error code
	Action  Of = "action"  //
	Version Of = "version" // of an action
	Pool    Of = "pool"    //
	Worker  Of = "worker"  //
	Session Of = "session" // the sessions of a pool
	Node    Of = "node"    //
	Server  Of = "server"  // the store or the broker
	Command Of = "command" // of operators
	Mark    Of = "mark"    //
)

// Unit is what a figure is in.
type Unit string

// The units.
const (
	Number  Unit = "n"
	Share   Unit = "share" // 0 to 1
	Millis  Unit = "ms"    // of a histogram, within 19 %
	Seconds Unit = "s"
)

// The figures. Those of nodes, servers, commands, routers and conditions have the word of the journal.
const (
	Failed      = "failed"
	FailedShare = "failed_share"
	Ended       = "ended"
	Submitted   = "submitted"
	RunP95      = "run_p95"
	WaitP95     = "wait_p95"
	Troubled    = "troubled" // times that a worker was degraded, or replaced for something that was wrong with it
	Marked      = "marked"
	Routed      = "router_taken"
)

// rule says when a figure is different, and how much that weighs. A weight of zero: nobody looks for that.
type rule struct {
	unit   Unit
	least  float64 // by how much the figures differ at least
	factor float64 // how many times the smaller one the larger one is at least
	fresh  float64 // the weight where there was none before; it need not differ by least
	more   float64
	less   float64
	gone   float64 // where there is none any more
}

// enough is how many executions a share or a quantile is of at least, in both ranges.
const enough = 10

// timesFactor is between quantiles of histograms, which are up to 19 % off: the true times have at least doubled.
const timesFactor = 2.8

// figure is what is compared of a kind of thing.
type figure struct {
	of   Of
	what string
}

// rules are the figures that have a rule of their own.
var rules = map[figure]rule{
	{Error, Failed}:       {unit: Number, least: 5, factor: 2, fresh: 90, more: 60, less: 15, gone: 20},
	{Action, FailedShare}: {unit: Share, least: 0.05, factor: 2, more: 55, less: 15},
	{Action, Ended}:       {unit: Number, least: 10, factor: 2, fresh: 30, more: 25, less: 25, gone: 40},
	{Action, RunP95}:      {unit: Millis, least: 5, factor: timesFactor, more: 50, less: 12},
	{Version, Ended}:      {unit: Number, least: 1, factor: math.Inf(1), fresh: 50, gone: 22},
	{Pool, Submitted}:     {unit: Number, least: 10, factor: 2, fresh: 28, more: 24, less: 24, gone: 38},
	{Pool, WaitP95}:       {unit: Millis, least: 100, factor: timesFactor, more: 48, less: 12},
	{Pool, Routed}:        {unit: Number, least: 1, factor: 1, fresh: 24, more: 22},
	{Worker, Troubled}:    {unit: Number, least: 2, factor: 2, fresh: 42, more: 42, less: 8, gone: 8},
	{Node, "joined"}:      {unit: Number, least: 1, factor: 1, fresh: 34, more: 34},
	{Node, "draining"}:    {unit: Number, least: 1, factor: 1, fresh: 26, more: 26},
	{Node, "stopped"}:     {unit: Number, least: 1, factor: 1, fresh: 32, more: 32},
	{Node, "late"}:        {unit: Number, least: 1, factor: 1, fresh: 58, more: 58, less: 6, gone: 6},
	{Node, "fenced"}:      {unit: Number, least: 1, factor: 1, fresh: 80, more: 80, less: 10, gone: 10},
	{Node, "dead"}:        {unit: Number, least: 1, factor: 1, fresh: 84, more: 84, less: 10, gone: 10},
	{Server, "away"}:      {unit: Number, least: 1, factor: 1, fresh: 82, more: 82, less: 10, gone: 10},
	{Server, "blocked"}:   {unit: Number, least: 1, factor: 1, fresh: 76, more: 76, less: 10, gone: 10},
	{Command, "reload"}:   {unit: Number, least: 1, factor: 1, fresh: 54, more: 54},
	{Mark, Marked}:        {unit: Number, least: 1, factor: 1, fresh: 52, more: 52},
}

// others are the rules of what has none of its own.
var others = map[Of]rule{
	Session: {unit: Number, least: 3, factor: 2, fresh: 26, more: 26, less: 6, gone: 6},
	Command: {unit: Number, least: 1, factor: 2, fresh: 18, more: 16},
}

// conditions are the weights of the conditions of pools in which work waits for longer than before.
var conditions = map[string]float64{
	roster.PoolBroken.String(): 86, roster.StoreAway.String(): 78, roster.BrokerAway.String(): 78, roster.BrokerBlocked.String(): 74,
	roster.NoWorkerYet.String(): 72, roster.WorkersCordoned.String(): 46, roster.WorkersBusy.String(): 36, roster.WorkersStarting.String(): 30,
}

// conditionShare is the share of the range by which a condition must have lasted longer or shorter.
const conditionShare = 0.05

// ruleOf is the rule of a figure, in a range of so many seconds; false: it is not compared.
func ruleOf(k figure, seconds float64) (rule, bool) {
	if r, own := rules[k]; own {
		return r, true
	}
	if weight := conditions[k.what]; k.of == Pool && weight > 0 {
		return rule{unit: Seconds, least: max(1, conditionShare*seconds), factor: 2, more: weight, less: weight / 6}, true
	}
	r, found := others[k.of]
	return r, found
}

// weigh is the weight of a change of a figure; 0: it is none.
func (r *rule) weigh(before, value float64) float64 {
	low, high := min(before, value), max(before, value)
	weight := r.more
	if value < before {
		weight = r.less
	}
	switch {
	case high == low:
		return 0
	case before == 0 && r.fresh > 0:
		weight = r.fresh
	case high-low < r.least || low > 0 && high < r.factor*low:
		return 0
	case value == 0 && r.gone > 0:
		weight = r.gone
	}
	if weight == 0 {
		return 0
	}
	return weight + size(low/r.least, high/r.least)
}

// sizeMax is the most that the size of a change adds to its weight, so that it orders changes of one kind before all else.
const sizeMax = 9

// size grows by one each time that the ratio of the figures doubles. They come in multiples of the least difference.
func size(low, high float64) float64 {
	return min(sizeMax, math.Log2((1+high)/(1+low)))
}
