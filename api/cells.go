package api

import (
	"context"
	"net/http"
	"time"

	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/keyframe"
)

// Fleet is what the nodes and their pools are, or were at a time.
type Fleet struct {
	keyframe.Fleet
	Unreached []view.Unreached `json:"unreached,omitempty" doc:"live nodes that did not answer, so that their pools are missing"`
}

// clockSlack is how far a caller's clock may be ahead of the node's.
const clockSlack = time.Minute

func cellsRoute() *route {
	return &route{method: "GET", path: "/api/v1/fleet", scope: ScopeRead, group: "nodes", storeless: true, params: []param{
		{name: "at", kind: "string", help: "What there was at this time, as 2030-01-31T08:00:00Z; now where left out."}},
		summary: "All nodes and pools with a letter for each worker, now or at a time of the past.", result: Fleet{}, handle: (*server).fleet}
}

func (s *server) fleet(c *call) error {
	at, err := c.query.moment("at")
	if err != nil {
		return err
	}
	if at.IsZero() {
		v, err := s.fleetNow(c.r.Context())
		if err != nil {
			return err
		}
		return writeJSON(c.w, http.StatusOK, v)
	}
	switch now := s.Now(); {
	case at.After(now.Add(clockSlack)):
		return invalid("at is %s, which is not past: the node's time is %s", at.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case at.After(now):
		at = now
	}
	then, err := s.past.get(c.r.Context(), at.UTC().Format(time.RFC3339Nano), func(ctx context.Context) (*keyframe.Fleet, error) {
		return s.Backend.FleetAt(ctx, at)
	})
	if err != nil {
		return err
	}
	return writeJSON(c.w, http.StatusOK, &Fleet{Fleet: *then})
}

// fleetNow asks all nodes for what they are.
func (s *server) fleetNow(ctx context.Context) (*Fleet, error) {
	now, missing, err := s.Backend.Fleet(ctx)
	if err != nil {
		return nil, err
	}
	return &Fleet{Fleet: *now, Unreached: missing}, nil
}
