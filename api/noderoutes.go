package api

import (
	"net/http"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

const metricsPath = "/metrics"

func nodeRoutes() []*route {
	return []*route{
		{method: "GET", path: "/api/v1/actions", scope: ScopeRead, group: "actions", storeless: true,
			summary: "The actions that this node serves.", result: ActionList{}, handle: (*server).actions},
		{method: "GET", path: "/api/v1/actions/{ref}", scope: ScopeRead, group: "actions", storeless: true,
			summary: "One action that this node serves, as in the list of actions.", result: ActionView{}, handle: (*server).action},
		{method: "POST", reason: true, path: "/api/v1/reload", scope: ScopeOperate, group: "node", waits: true,
			summary: "Read the packs again, after a worker of each changed pool has started. Running work ends on the old version.", result: ReloadReport{}, handle: (*server).reload},
		{method: "GET", path: "/healthz", group: "node", storeless: true, probe: true, summary: "Answers while the process runs.", result: AliveView{}, handle: (*server).alive},
		{method: "GET", path: "/readyz", group: "node", storeless: true, probe: true,
			summary: "200 while the node accepts work, else 503 with the reason.", result: Readiness{}, handle: (*server).ready},
		{method: "GET", path: metricsPath, scope: ScopeRead, group: "node", storeless: true, media: "text/plain", summary: "Prometheus metrics.",
			params: []param{{name: "name[]", kind: "string", many: true, help: "Only these metrics."}},
			handle: func(s *server, c *call) error { return s.other(c, s.Metrics, "metrics") }},
		{method: "GET", path: "/debug/actors", scope: ScopeRead, group: "debug", storeless: true,
			summary: "The live actor tree of this node, of another, or of all.",
			params: []param{
				{name: "cluster", kind: "boolean", help: "1: the trees of all live nodes, each with its age."},
				{name: "node", kind: "string", help: "The tree of this node, by its name or incarnation."},
				{name: "kind", kind: "string", help: "Only actors of this kind, as a flat list."},
				{name: "children", kind: "integer", help: "Children shown of each actor, those with trouble first; 0, or left out: all."},
			},
			handle: func(s *server, c *call) error { return s.other(c, s.Debug, "actor tree") }},
		{method: "GET", path: "/debug/actors/{id...}", scope: ScopeRead, group: "debug", storeless: true, summary: "One actor with its history.",
			params: []param{{name: "node", kind: "string", help: "Where it lives, by the node's name or incarnation; left out: here."}},
			handle: func(s *server, c *call) error { return s.other(c, s.Debug, "actor tree") }},
		{method: "GET", path: "/openapi.json", group: "node", storeless: true, summary: "This description.",
			handle: func(s *server, c *call) error {
				c.leave() // a slow reader must not keep a place
				head(c.w, headerJSON)
				_, _ = c.w.Write(s.document())
				return nil
			}},
	}
}

// AliveView is the answer of /healthz.
type AliveView struct {
	Status string `json:"status"` // ok
}

func (s *server) sessions(c *call) error {
	limit, err := c.query.number("limit", 1, 1000, 100)
	if err != nil {
		return err
	}
	f, err := sessionFilter(c.query)
	if err != nil {
		return err
	}
	after := ""
	if text := c.query.text("cursor"); text != "" {
		if after, err = parseCursor(text); err != nil {
			return err
		}
	}
	list, err := s.Backend.Sessions(c.r.Context(), f, after, limit)
	if err != nil {
		return err
	}
	view := SessionList{Sessions: orEmpty(list)}
	if len(list) == limit {
		view.NextCursor = cursor(sessionPosition(f.Only(), list[limit-1]))
	}
	return writeJSON(c.w, http.StatusOK, &view)
}

// sessionPosition returns the position after a page: the session's name in a list of one pool, else its pool and name,
// in the form of store.Sessions.
func sessionPosition(pool string, last store.Session) string {
	if pool != "" {
		return last.Session
	}
	return last.Pool + "/" + last.Session
}

func (s *server) actions(c *call) error {
	actions, err := s.Backend.Actions(c.r.Context())
	if err != nil {
		return err
	}
	view := ActionList{Actions: make([]ActionView, len(actions))}
	for i := range actions {
		view.Actions[i] = viewAction(&actions[i])
	}
	return writeJSON(c.w, http.StatusOK, &view)
}

func (s *server) action(c *call) error {
	return s.onNamed(c, "ref", "action", http.StatusOK, func(ref string) (any, error) {
		actions, err := s.Backend.Actions(c.r.Context())
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(actions, func(a messages.Action) bool { return a.Ref == ref })
		if i < 0 {
			return nil, NotFound("action", ref)
		}
		return viewAction(&actions[i]), nil
	})
}

func (s *server) reload(c *call) error {
	report, err := s.Backend.Reload(c.r.Context(), c.caller)
	if err != nil {
		return err
	}
	report.Packs = orEmpty(report.Packs)
	return writeJSON(c.w, http.StatusOK, &report)
}

func (s *server) alive(c *call) error {
	return writeJSON(c.w, http.StatusOK, &AliveView{Status: "ok"})
}

// other passes the request to a handler of the node.
func (s *server) other(c *call, h http.Handler, what string) error {
	if h == nil {
		return messages.Problemf(messages.CodeNotFound, "this node has no %s", what)
	}
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(writeTime))
	h.ServeHTTP(c.w, c.r)
	return nil
}
