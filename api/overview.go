package api

import (
	"context"
	"net/http"
	"time"

	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/rollup"
)

// Overview is what a first view shows: of everything a little.
type Overview struct {
	At        time.Time        `json:"at" doc:"when it was put together; that serves for a second"`
	Me        MeView           `json:"me"`
	Readiness Readiness        `json:"readiness" doc:"of this node"`
	Findings  Findings         `json:"findings"`
	Totals    Totals           `json:"totals"`
	Pools     []PoolOverview   `json:"pools"`
	Nodes     []view.Node      `json:"nodes" doc:"those that live, and those that were lost within the last hour"`
	Counts    *rollup.Digest   `json:"counts,omitempty" doc:"what was counted by minute, of the range; up to ten seconds old"`
	Unreached []view.Unreached `json:"unreached,omitempty"`
	Missing   []MissingPart    `json:"missing,omitempty" doc:"parts that could not be read, so that they are empty"`
}

// Totals are sums over all pools.
type Totals struct {
	Workers int  `json:"workers"`
	Busy    int  `json:"busy" doc:"workers"`
	Waiting int  `json:"waiting" doc:"executions that no worker has"`
	NotDue  int  `json:"not_due,omitempty" doc:"of waiting: those whose time has not come"`
	More    bool `json:"waiting_more,omitempty" doc:"more than waiting says"`
	Placed  int  `json:"placed" doc:"executions on a worker's queue"`
	Running int  `json:"running" doc:"executions"`
}

// PoolOverview is a pool with what it did lately.
type PoolOverview struct {
	view.Pool
	Rates *rollup.Rates `json:"rates,omitempty" doc:"of the time that counts has"`
}

// MissingPart is a part of an answer that could not be read.
type MissingPart struct {
	Part string `json:"part" doc:"pools, nodes or counts"`
	Why  string `json:"why"`
}

// NewTotals adds up pools.
func NewTotals(pools []PoolOverview) (t Totals) {
	for i := range pools {
		p := &pools[i]
		t.Workers, t.Busy, t.Waiting, t.Placed, t.Running = t.Workers+p.Workers, t.Busy+p.Busy, t.Waiting+p.Waiting, t.Placed+p.Placed, t.Running+p.Running
		t.NotDue, t.More = t.NotDue+p.NotDue, t.More || p.More
	}
	return t
}

// overviewMax is the longest range: counts by the hour are kept for 90 days, and of that there must be two.
const overviewMax = differencesMax

func overviewRoute() *route {
	return &route{method: "GET", path: "/api/v1/overview", scope: ScopeRead, group: "nodes", storeless: true, params: []param{
		{name: "from", kind: "string", help: "Outcomes, failures and slower actions of counts from this minute on, as 2030-01-31T08:00:00Z; an hour before to where left out."},
		{name: "to", kind: "string", help: "Up to the end of this minute; now where left out."}},
		summary: "What a first view shows: findings, totals and rates, pools, nodes, what fails anew and what runs longer than before.",
		result:  Overview{}, handle: (*server).overview}
}

func (s *server) overview(c *call) error {
	var from, to time.Time
	if len(c.query.all("from"))+len(c.query.all("to")) > 0 {
		var err error
		if from, to, err = c.query.span(s.Now(), rollup.DigestSpan, overviewMax); err != nil {
			return err
		}
	}
	v := s.shown(c.r.Context(), from, to)
	v.Me = s.caller(c)
	return writeJSON(c.w, http.StatusOK, &v)
}

// shown is the overview without what depends on the caller. A range without an end is the last hour.
func (s *server) shown(ctx context.Context, from, to time.Time) Overview {
	v := s.Backend.Overview(ctx, from, to)
	v.Findings.Findings, v.Findings.Unknown, v.Pools, v.Nodes = orEmpty(v.Findings.Findings), orEmpty(v.Findings.Unknown), orEmpty(v.Pools), orEmpty(v.Nodes)
	return v
}
