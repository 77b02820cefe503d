package api

import (
	"net/http"
	"time"

	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/alerts"
)

// Findings is what is wrong in the cluster by the rules of the alerts.
type Findings struct {
	At       time.Time        `json:"at,omitzero" doc:"when the rules were judged; they are every 15 s, and every 3 s while somebody asks"`
	Since    time.Time        `json:"since,omitzero" doc:"since when the answering node judges them: it started then, and knows nothing from before"`
	Findings []alerts.Finding `json:"findings" doc:"the most severe first"`
	// Unknown are rules that say nothing, which is not that all is well.
	Unknown []string `json:"not_evaluated" doc:"rules that cannot be judged now, because no node has their numbers"`
	// Partly are rules of which a node that has run for longer may find more.
	Partly    []string         `json:"judged_in_part,omitempty" doc:"rules that look further back than since: a node that has run for longer may find more by them"`
	Unreached []view.Unreached `json:"unreached,omitempty" doc:"nodes whose numbers are missing"`
}

func watchRoutes() []*route {
	return []*route{
		{method: "GET", path: "/api/v1/findings", scope: ScopeRead, group: "nodes", storeless: true,
			summary: "What is wrong now, by the rules of the alerts: since when, what it means and what to do.", result: Findings{}, handle: (*server).findings},
		errorsRoute(), differencesRoute(), facetsRoute(), cellsRoute(), liveRoute(), overviewRoute(),
	}
}

func (s *server) findings(c *call) error {
	found := s.Backend.Findings()
	found.Findings, found.Unknown = orEmpty(found.Findings), orEmpty(found.Unknown)
	return writeJSON(c.w, http.StatusOK, &found)
}
