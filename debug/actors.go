package debug

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
)

// Source is the endpoint's source of actors. *actors.Registry is one.
type Source interface {
	Snapshot() []actors.Info
	Get(id string) (actors.Info, bool)
	Failure(id string) (actors.Failure, bool)
	DeadLetters() map[string]int64
}

var _ Source = (*actors.Registry)(nil)

// Config configures the endpoint. Source is required.
type Config struct {
	Node   string // name
	Source Source
	// WaitsFor, where set, lists the servers that the node waits for, each with the reason.
	WaitsFor func() []string
	// History returns the lifecycle of a live actor, newest first, as a value for JSON; nil: there are no histories.
	// The context bounds its time.
	History func(ctx context.Context, actor actors.Info) (any, error)
	// Cluster shows the other nodes; nil: there are none.
	Cluster *Cluster
}

// historyTime bounds the wait for an actor's history: it may come from the store.
const historyTime = 2 * time.Second

// Detail is the answer of /debug/actors/{id}.
type Detail struct {
	actors.Info
	// Node and Incarnation say where it lives, if the request named a node.
	Node        string               `json:"node,omitempty"`
	Incarnation messages.Incarnation `json:"incarnation,omitzero"`
	Live        bool                 `json:"live"`
	Children    []string             `json:"children,omitempty"`
	// ChildrenCount is the number of children, if not all are listed.
	ChildrenCount int             `json:"children_count,omitempty"`
	Failure       *actors.Failure `json:"failure,omitempty"`
	History       any             `json:"history,omitempty"`
}

// Actors makes the handler of /debug/actors and /debug/actors/{id…}. It does not check the caller.
func Actors(cfg Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/actors", cfg.trees)
	mux.HandleFunc("GET /debug/actors/{id...}", cfg.detail)
	return mux
}

// trees answers with the tree of this node, of all, or of one other.
func (cfg Config) trees(w http.ResponseWriter, r *http.Request) {
	q, err := questionOf(r.URL.Query())
	switch {
	case err != nil:
		refuse(w, http.StatusBadRequest, "invalid_request", err.Error())
	case q.cluster:
		answer(w, http.StatusOK, cfg.Cluster.view(r.Context(), &cfg, q.filter))
	case q.node != "":
		cfg.treeOf(w, r, q.node, q.filter)
	default:
		answer(w, http.StatusOK, cfg.list().tree(q.filter))
	}
}

// treeOf answers with the tree of one node, which may be an earlier answer.
func (cfg Config) treeOf(w http.ResponseWriter, r *http.Request, node string, f filter) {
	member, problem := cfg.Cluster.find(r.Context(), &cfg, node)
	if problem != nil {
		problem.write(w)
		return
	}
	part := cfg.Cluster.part(r.Context(), &cfg, member, f)
	if part.Tree == nil {
		unreachable(member, part.Error).write(w)
		return
	}
	answer(w, http.StatusOK, part)
}

// question is a parsed request.
type question struct {
	cluster bool
	node    string
	filter
}

// childrenLimit bounds what a caller may ask for.
const childrenLimit = 1_000_000

func questionOf(v url.Values) (q question, err error) {
	switch text := v.Get("cluster"); text {
	case "", "0", "false":
	case "1", "true":
		q.cluster = true
	default:
		return q, fmt.Errorf("cluster must be 1 or 0, got %q", shorten(text, 128))
	}
	if text := v.Get("children"); text != "" {
		q.most, err = strconv.Atoi(text)
		if err != nil || q.most < 0 || q.most > childrenLimit {
			return q, fmt.Errorf("children must be a whole number from 0 to %d, got %q", childrenLimit, shorten(text, 128))
		}
	}
	q.kind, q.node = v.Get("kind"), v.Get("node")
	if q.cluster && q.node != "" {
		return q, errors.New("cluster and node exclude each other: cluster shows every node, node shows one")
	}
	return q, nil
}

func (cfg Config) detail(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	node := r.URL.Query().Get("node")
	if node == "" {
		d, known := cfg.describe(r.Context(), id)
		if !known {
			unknown(unknownText(id)).write(w)
			return
		}
		answer(w, http.StatusOK, d)
		return
	}
	member, problem := cfg.Cluster.find(r.Context(), &cfg, node)
	if problem != nil {
		problem.write(w)
		return
	}
	d, problem := cfg.Cluster.detail(r.Context(), &cfg, member, id)
	if problem != nil {
		problem.write(w)
		return
	}
	d.Node, d.Incarnation = member.Name, member.Incarnation
	answer(w, http.StatusOK, d)
}

// describe returns the details of one of this node's actors.
func (cfg Config) describe(ctx context.Context, id string) (d Detail, known bool) {
	info, live := cfg.Source.Get(id)
	failure, failed := cfg.Source.Failure(id)
	if !live && !failed {
		return d, false
	}
	d = Detail{Info: info, Live: live}
	if failed {
		d.Failure = &failure
	}
	if !live {
		d.ID, d.LastFailure = id, failure.Reason
		return d, true
	}
	for _, other := range cfg.Source.Snapshot() {
		if other.Parent == id {
			d.Children = append(d.Children, other.ID)
		}
	}
	d.History = cfg.history(ctx, info)
	return d, true
}

// history returns the actor's history. If it cannot be read, it returns the error as text, so that the rest is still
// shown.
func (cfg Config) history(ctx context.Context, info actors.Info) any {
	if cfg.History == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, historyTime)
	defer cancel()
	history, err := cfg.History(ctx, info)
	if err != nil {
		return map[string]string{"error": "the history cannot be read now: " + err.Error()}
	}
	return history
}

// refusal is an error answer.
type refusal struct {
	status        int
	code, message string
}

func (p *refusal) write(w http.ResponseWriter) { refuse(w, p.status, p.code, p.message) }

func unknown(message string) *refusal {
	return &refusal{http.StatusNotFound, "not_found", message}
}

func unreachable(m Member, why string) *refusal {
	do := "; call it directly"
	if m.Address != "" {
		do += " at " + m.Address
	}
	return &refusal{http.StatusServiceUnavailable, "node_unreachable", "node " + m.Name + " cannot be asked: " + why + do}
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	answer(w, status, map[string]any{"error": map[string]string{"code": code, "message": message}})
}

// answer writes JSON only, because actor ids contain names that callers chose.
func answer(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":{"code":"internal","message":"the actors cannot be shown as JSON"}}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}

// New makes a handler with only a source: no node's name, no history.
func New(source Source) http.Handler { return Actors(Config{Source: source}) }
