package debug

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/troupe-run/troupe/actors"
)

// Source is what the endpoint reads. *actors.Registry is one.
type Source interface {
	Snapshot() []actors.Info
	Get(id string) (actors.Info, bool)
	Failure(id string) (actors.Failure, bool)
	DeadLetters() map[string]int64
}

var _ Source = (*actors.Registry)(nil)

// Config is what the endpoint shows. Source is required.
type Config struct {
	Node   string // name
	Source Source
	// WaitsFor, where set, lists the servers that the node waits for, each with the reason.
	WaitsFor func() []string
	// History returns the lifecycle of a live actor, newest first, as something that is JSON; nil: actors have none.
	// Its time is bounded by the context.
	History func(ctx context.Context, actor actors.Info) (any, error)
}

// historyTime bounds the wait for an actor's history: it may come from the store.
const historyTime = 2 * time.Second

// Tree is the answer of /debug/actors.
type Tree struct {
	Node        string           `json:"node"`
	At          time.Time        `json:"at"`
	Count       int              `json:"count"`
	WaitsFor    []string         `json:"waits_for,omitempty"`
	Roots       []*Branch        `json:"roots"`
	DeadLetters map[string]int64 `json:"dead_letters,omitempty"` // messages that found no actor, by type
}

// Branch is one actor with what it supervises, by id.
type Branch struct {
	actors.Info
	Children []*Branch `json:"children,omitempty"`
}

// Detail is the answer of /debug/actors/{id}.
type Detail struct {
	actors.Info
	Live     bool            `json:"live"`
	Children []string        `json:"children,omitempty"`
	Failure  *actors.Failure `json:"failure,omitempty"`
	History  any             `json:"history,omitempty"`
}

// Actors makes the handler of /debug/actors and /debug/actors/{id…}. It checks nothing about the caller.
func Actors(cfg Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/actors", cfg.tree)
	mux.HandleFunc("GET /debug/actors/{id...}", cfg.detail)
	return mux
}

func (cfg Config) tree(w http.ResponseWriter, r *http.Request) {
	infos := cfg.Source.Snapshot()
	if kind := r.URL.Query().Get("kind"); kind != "" {
		infos = ofKind(infos, kind)
	}
	tree := Tree{
		Node: cfg.Node, At: time.Now().UTC(), Count: len(infos), Roots: Grow(infos), DeadLetters: cfg.Source.DeadLetters(),
	}
	if cfg.WaitsFor != nil {
		tree.WaitsFor = cfg.WaitsFor()
	}
	answer(w, http.StatusOK, tree)
}

// ofKind keeps the actors of one kind, as roots.
func ofKind(infos []actors.Info, kind string) []actors.Info {
	var kept []actors.Info
	for _, i := range infos {
		if i.Kind == kind {
			i.Parent = ""
			kept = append(kept, i)
		}
	}
	return kept
}

// Grow makes the tree of a flat list. An actor whose parent is not in the list is a root: it may have ended while
// the list was taken, and a child must not vanish with it. The order of the list is kept.
func Grow(infos []actors.Info) []*Branch {
	branches := make(map[string]*Branch, len(infos))
	for _, i := range infos {
		branches[i.ID] = &Branch{Info: i}
	}
	roots := []*Branch{}
	for _, i := range infos {
		parent := branches[i.Parent]
		if parent == nil || i.Parent == i.ID {
			roots = append(roots, branches[i.ID])
			continue
		}
		parent.Children = append(parent.Children, branches[i.ID])
	}
	return roots
}

func (cfg Config) detail(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	info, live := cfg.Source.Get(id)
	failure, failed := cfg.Source.Failure(id)
	if !live && !failed {
		unknown(w, id)
		return
	}
	d := Detail{Info: info, Live: live}
	if failed {
		d.Failure = &failure
	}
	if !live {
		d.ID, d.LastFailure = id, failure.Reason
		answer(w, http.StatusOK, d)
		return
	}
	for _, other := range cfg.Source.Snapshot() {
		if other.Parent == id {
			d.Children = append(d.Children, other.ID)
		}
	}
	d.History = cfg.history(r.Context(), info)
	answer(w, http.StatusOK, d)
}

// history returns what is known of the actor's past. Not being able to read it must not hide the present.
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

func unknown(w http.ResponseWriter, id string) {
	const limit = 128
	if len(id) > limit {
		id = id[:limit] + "…"
	}
	answer(w, http.StatusNotFound, map[string]any{"error": map[string]string{
		"code": "not_found", "message": "actor " + id + " is not alive here, and no failure of it is remembered",
	}})
}

// answer writes JSON and nothing else: actor ids hold names that callers chose.
func answer(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":{"code":"internal","message":"the actors cannot be shown as JSON"}}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}

// New makes the handler of a source alone: no node's name, no history.
func New(source Source) http.Handler { return Actors(Config{Source: source}) }
