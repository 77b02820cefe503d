package api

import (
	"net/http"

	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/store"
)

func sessionRoutes() []*route {
	const one, state = "/api/v1/sessions/{pool}/{name...}", "/api/v1/session-states/{pool}/{name...}"
	return []*route{
		{method: "GET", path: "/api/v1/sessions", scope: ScopeRead, group: "sessions",
			params: []param{
				{name: "pool", kind: "string", many: true, help: "Only this pool; repeat it for one of several."},
				{name: "q", kind: "string", many: true, help: "Only names that begin so; repeat it for several beginnings."},
				{name: "bound", kind: "boolean", help: "1: only sessions that are bound to a worker."},
				{name: notPrefix + "pool", kind: "string", many: true, help: "None of this pool; repeat it for several."},
				{name: notPrefix + "q", kind: "string", many: true, help: "No names that begin so; repeat it for several beginnings."},
				{name: notPrefix + "bound", kind: "boolean", help: "1: only sessions that are not bound."}, limitParam, cursorParam},
			summary: "The sessions, by pool and name.", result: SessionList{}, handle: (*server).sessions},
		{method: "GET", path: one, scope: ScopeRead, group: "sessions",
			summary: "One session: what runs and waits in it, and what happened to it.", result: view.SessionDetail{}, handle: (*server).session},
		{method: "DELETE", reason: true, path: one, scope: ScopeOperate, group: "sessions",
			summary: "End an idle session: its binding ends, its worker drops its state, and what is stored of it is deleted.", result: view.Session{}, handle: (*server).endSession},
		{method: "GET", path: "/api/v1/session-states", scope: ScopeRead, group: "sessions",
			summary: "The states of sessions that were set aside, because each worker that they were given back to ended; the newest 1,000.", result: SessionStateList{}, handle: (*server).sessionStates},
		{method: "GET", path: state, scope: ScopeOperate, group: "sessions",
			summary: "What is stored of one session's state, with the state itself.", result: view.SessionState{}, handle: (*server).sessionState},
		{method: "DELETE", reason: true, path: state, scope: ScopeOperate, group: "sessions",
			summary: "Delete what is stored of one session's state, also where it was set aside.", result: SessionStateDropped{}, handle: (*server).dropSessionState},
	}
}

func sessionFilter(q query) (f store.SessionFilter, err error) {
	if f.Pools, err = q.several("pool"); err != nil {
		return f, err
	}
	if f.NotPools, err = q.several(notPrefix + "pool"); err != nil {
		return f, err
	}
	if f.Bound, err = q.flag("bound"); err != nil {
		return f, err
	}
	if f.Unbound, err = q.flag(notPrefix + "bound"); err != nil {
		return f, err
	}
	if f.Bound && f.Unbound {
		return f, invalid("bound and not.bound leave no session; give one of them")
	}
	only, err := q.several("q")
	if err != nil {
		return f, err
	}
	not, err := q.several(notPrefix + "q")
	if err != nil || len(only)+len(not) == 0 {
		return f, err
	}
	if f.Names = store.NameRanges(only, not); len(f.Names) == 0 {
		return f, invalid("q and not.q leave no name")
	}
	return f, nil
}

func (s *server) session(c *call) error {
	pool, name, err := sessionOf(c)
	if err != nil {
		return err
	}
	view, err := s.Backend.SessionDetail(c.r.Context(), pool, name)
	if err != nil {
		return named(err, "session", pool+"/"+name)
	}
	view.Queue, view.Journal = orEmpty(view.Queue), orEmpty(view.Journal)
	return writeJSON(c.w, http.StatusOK, &view)
}

func (s *server) endSession(c *call) error {
	pool, name, err := sessionOf(c)
	if err != nil {
		return err
	}
	view, err := s.Backend.EndSession(c.r.Context(), pool, name, c.caller)
	if err != nil {
		return named(err, "session", pool+"/"+name)
	}
	return writeJSON(c.w, http.StatusOK, &view)
}

// SessionStateList are states that were set aside.
type SessionStateList struct {
	States []store.AsideState `json:"states"`
}

// SessionStateDropped names the session whose stored state was deleted.
type SessionStateDropped struct {
	Pool    string `json:"pool"`
	Session string `json:"session"`
}

func (s *server) sessionStates(c *call) error {
	list, err := s.Backend.SessionStates(c.r.Context())
	if err != nil {
		return err
	}
	return writeJSON(c.w, http.StatusOK, &SessionStateList{States: orEmpty(list)})
}

func (s *server) sessionState(c *call) error {
	pool, name, err := sessionOf(c)
	if err != nil {
		return err
	}
	if err := c.answer.Admit(c.r.Context(), answerState); err != nil {
		return err
	}
	v, err := s.Backend.SessionState(c.r.Context(), pool, name)
	if err != nil {
		return named(err, "stored state of session", pool+"/"+name)
	}
	return writeJSON(c.w, http.StatusOK, &v)
}

func (s *server) dropSessionState(c *call) error {
	pool, name, err := sessionOf(c)
	if err != nil {
		return err
	}
	if err := s.Backend.DropSessionState(c.r.Context(), pool, name, c.caller); err != nil {
		return named(err, "stored state of session", pool+"/"+name)
	}
	return writeJSON(c.w, http.StatusOK, &SessionStateDropped{Pool: pool, Session: name})
}

// sessionOf reads the pool and the name of a session's path. The name may contain slashes.
func sessionOf(c *call) (pool, name string, err error) {
	if pool, err = pathText(c, "pool", "pool"); err == nil {
		name, err = pathText(c, "name", "session")
	}
	return pool, name, err
}
