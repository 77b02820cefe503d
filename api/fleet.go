package api

import (
	"context"
	"net/http"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/submit"
)

// workersMax bounds a page of workers: a pool of go workers may have thousands.
const workersMax = 10_000

var nodeParam = param{name: "node", kind: "string", help: "Only this node: its name or its incarnation."}

func fleetRoutes() []*route {
	const worker = "/api/v1/workers/{node}/{pool}/{slot}"
	return []*route{
		{method: "GET", path: "/api/v1/workers", scope: ScopeRead, group: "workers", storeless: true,
			params: append(workerParams(),
				param{name: "order", kind: "string", help: "id, also where left out, or troubled: those first that do not work as they should."},
				param{name: "limit", kind: "integer", help: "Entries of one page, 1 to 10000; 1000 where left out."}, cursorParam),
			summary: "The workers of all nodes.", result: WorkerList{}, handle: (*server).workers},
		{method: "GET", path: worker, scope: ScopeRead, group: "workers", storeless: true,
			summary: "One worker with its history, newest first.", result: WorkerDetailView{}, handle: (*server).worker},
		{method: "GET", path: worker + "/health", scope: ScopeRead, group: "workers", storeless: true,
			summary: "The result of the worker's last probe.", result: HealthView{}, handle: (*server).health},
		{method: "GET", path: worker + "/runs", scope: ScopeRead, group: "workers",
			summary: "The last runs of the worker, newest first: up to 64.", result: view.WorkerRuns{}, handle: (*server).runs},
		{method: "POST", reason: true, path: worker + "/health", scope: ScopeOperate, group: "workers",
			long: true, storeless: true, summary: "Probe the worker now.", result: HealthView{}, handle: (*server).probe},
		{method: "POST", reason: true, path: worker + "/cordon", scope: ScopeAdmin, group: "workers",
			summary: "Give the worker no more work.", result: CordonView{}, handle: cordonWorker(true)},
		{method: "POST", reason: true, path: worker + "/uncordon", scope: ScopeAdmin, group: "workers",
			summary: "Give the worker work again.", result: CordonView{}, handle: cordonWorker(false)},
		{method: "POST", reason: true, path: worker + "/kill", scope: ScopeAdmin, group: "workers", storeless: true, status: http.StatusAccepted,
			summary: "End the worker at once; it is replaced.", result: DoneView{}, handle: (*server).kill},
		{method: "GET", path: "/api/v1/pools", scope: ScopeRead, group: "pools",
			params:  []param{nodeParam},
			summary: "The pools, summed over all nodes.", result: PoolList{}, handle: (*server).pools},
		{method: "GET", path: "/api/v1/pools/{pool}", scope: ScopeRead, group: "pools",
			summary: "One pool in detail: its slots by state, what waits by priority and cause, and when that is done.", result: view.PoolDetail{}, handle: (*server).pool},
		{method: "POST", reason: true, path: "/api/v1/pools/{pool}/cordon", scope: ScopeAdmin, group: "pools",
			summary: "Give the pool no more work.", result: CordonView{}, handle: cordonPool(true)},
		{method: "POST", reason: true, path: "/api/v1/pools/{pool}/uncordon", scope: ScopeAdmin, group: "pools",
			summary: "Give the pool work again.", result: CordonView{}, handle: cordonPool(false)},
		{method: "GET", path: "/api/v1/nodes", scope: ScopeRead, group: "nodes", storeless: true,
			summary: "Every known incarnation, newest first, and whether this node reaches it.", result: NodeList{}, handle: (*server).nodes},
		{method: "GET", path: "/api/v1/nodes/{id}", scope: ScopeRead, group: "nodes", storeless: true,
			summary: "One incarnation, by itself or as the newest of a node's name.", result: view.Node{}, handle: (*server).node},
		{method: "GET", path: "/api/v1/reach", scope: ScopeRead, group: "nodes", storeless: true,
			summary: "Which live node reaches which other, as each says itself.", result: ReachList{}, handle: (*server).reach},
		{method: "POST", reason: true, path: "/api/v1/nodes/{id}/cordon", scope: ScopeAdmin, group: "nodes",
			summary: "Give the node no more work.", result: CordonView{}, handle: cordonNode(true)},
		{method: "POST", reason: true, path: "/api/v1/nodes/{id}/uncordon", scope: ScopeAdmin, group: "nodes",
			summary: "Give the node work again.", result: CordonView{}, handle: cordonNode(false)},
		{method: "POST", reason: true, path: "/api/v1/nodes/{id}/drain", scope: ScopeAdmin, group: "nodes", storeless: true, status: http.StatusAccepted,
			summary: "Take no more work and finish the running work.", result: DoneView{}, handle: (*server).drain},
	}
}

func (s *server) workers(c *call) error {
	limit, err := c.query.number("limit", 1, workersMax, 1000)
	if err != nil {
		return err
	}
	after := ""
	if text := c.query.text("cursor"); text != "" {
		if after, err = parseCursor(text); err != nil {
			return err
		}
	}
	list, err := s.workerList(c.r.Context(), c.query, after, limit)
	if err != nil {
		return err
	}
	return writeJSON(c.w, http.StatusOK, list)
}

// workerList asks all nodes for a page of workers.
func (s *server) workerList(ctx context.Context, q query, after string, limit int) (*WorkerList, error) {
	f, err := workerFilterOf(q)
	if err != nil {
		return nil, err
	}
	order, err := orderOf(q)
	if err != nil {
		return nil, err
	}
	all, err := s.workersOf(ctx, f)
	if err != nil {
		return nil, err
	}
	page, next, err := workerPage(all.Workers, f, order, after, limit)
	if err != nil {
		return nil, err
	}
	return &WorkerList{Workers: page, NextCursor: next, Unreached: all.Unreached}, nil
}

// workerID joins the three wildcards of a worker's path.
func workerID(r *http.Request) (messages.WorkerID, error) {
	id := messages.WorkerID(r.PathValue("node") + "/" + r.PathValue("pool") + "/" + r.PathValue("slot"))
	if _, _, _, ok := id.Split(); !ok || submit.CheckText("", string(id), 3*messages.SessionMax) != nil {
		return "", messages.Problemf(messages.CodeNotFound, "worker %q is not known here: it is not a worker id (node/pool/slot)", clip(string(id)))
	}
	return id, nil
}

// ofWorker calls ask with the worker of the path.
func (s *server) ofWorker(c *call, ask func(messages.WorkerID) (any, error)) error {
	return s.ofWorkerStatus(c, http.StatusOK, ask)
}

func (s *server) ofWorkerStatus(c *call, status int, ask func(messages.WorkerID) (any, error)) error {
	id, err := workerID(c.r)
	if err != nil {
		return err
	}
	shown, err := ask(id)
	if err != nil {
		return named(err, "worker", string(id))
	}
	return writeJSON(c.w, status, shown)
}

func (s *server) worker(c *call) error {
	return s.ofWorker(c, func(id messages.WorkerID) (any, error) {
		d, err := s.Backend.Worker(c.r.Context(), id)
		return viewWorker(d), err
	})
}

func (s *server) health(c *call) error {
	return s.ofWorker(c, func(id messages.WorkerID) (any, error) {
		d, err := s.Backend.Worker(c.r.Context(), id)
		return viewHealth(d), err
	})
}

func (s *server) runs(c *call) error {
	return s.ofWorker(c, func(id messages.WorkerID) (any, error) { return s.Backend.Runs(c.r.Context(), id) })
}

func (s *server) probe(c *call) error {
	return s.ofWorker(c, func(id messages.WorkerID) (any, error) {
		d, err := s.Backend.ProbeWorker(c.r.Context(), id, c.caller)
		return viewHealth(d), err
	})
}

func (s *server) kill(c *call) error {
	return s.ofWorkerStatus(c, http.StatusAccepted, func(id messages.WorkerID) (any, error) {
		return DoneView{Kind: "worker", Name: string(id), Done: "kill"}, s.Backend.KillWorker(c.r.Context(), id, c.caller)
	})
}

func cordonWorker(cordoned bool) func(*server, *call) error {
	return func(s *server, c *call) error {
		return s.ofWorker(c, func(id messages.WorkerID) (any, error) {
			return CordonView{Kind: "worker", Name: string(id), Cordoned: cordoned}, s.Backend.CordonWorker(c.r.Context(), id, cordoned, c.caller)
		})
	}
}

func (s *server) pools(c *call) error {
	list, err := s.poolList(c.r.Context(), c.query.text("node"))
	if err != nil {
		return err
	}
	return writeJSON(c.w, http.StatusOK, list)
}

func (s *server) pool(c *call) error {
	return s.onNamed(c, "pool", "pool", http.StatusOK, func(name string) (any, error) { return s.Backend.Pool(c.r.Context(), name) })
}

// poolList asks all nodes for their pools, or one.
func (s *server) poolList(ctx context.Context, node string) (*PoolList, error) {
	pools, err := s.Backend.Pools(ctx, node)
	if err != nil {
		return nil, err
	}
	return &PoolList{Pools: orEmpty(pools.Pools), Unreached: pools.Unreached}, nil
}

// pathText reads a wildcard that is a name. It returns not found for a text that cannot be a name.
func pathText(c *call, wildcard, kind string) (string, error) {
	name := c.r.PathValue(wildcard)
	if submit.CheckText("", name, messages.SessionMax) != nil {
		return "", NotFound(kind, name)
	}
	return name, nil
}

// onNamed has the backend do something to what a wildcard of the path names, and answers with the view of what was done.
func (s *server) onNamed(c *call, wildcard, kind string, status int, do func(name string) (done any, err error)) error {
	name, err := pathText(c, wildcard, kind)
	if err != nil {
		return err
	}
	done, err := do(name)
	if err != nil {
		return named(err, kind, name)
	}
	return writeJSON(c.w, status, done)
}

func cordonPool(cordoned bool) func(*server, *call) error {
	return func(s *server, c *call) error {
		return s.onNamed(c, "pool", "pool", http.StatusOK, func(name string) (any, error) {
			return CordonView{Kind: "pool", Name: name, Cordoned: cordoned}, s.Backend.CordonPool(c.r.Context(), name, cordoned, c.caller)
		})
	}
}

func (s *server) nodes(c *call) error {
	nodes, err := s.Backend.Nodes(c.r.Context())
	if err != nil {
		return err
	}
	return writeJSON(c.w, http.StatusOK, &NodeList{Nodes: orEmpty(nodes)})
}

func (s *server) reach(c *call) error {
	nodes, missing, err := s.Backend.Reach(c.r.Context())
	if err != nil {
		return err
	}
	return writeJSON(c.w, http.StatusOK, &ReachList{Nodes: orEmpty(nodes), Unreached: missing})
}

func (s *server) node(c *call) error {
	id, err := pathText(c, "id", "node")
	if err != nil {
		return err
	}
	nodes, err := s.Backend.Nodes(c.r.Context())
	if err != nil {
		return err
	}
	for i := range nodes { // newest first
		if nodes[i].Name == id || nodes[i].Incarnation.String() == id {
			return writeJSON(c.w, http.StatusOK, &nodes[i])
		}
	}
	return NotFound("node", id)
}

func cordonNode(cordoned bool) func(*server, *call) error {
	return func(s *server, c *call) error {
		return s.onNamed(c, "id", "node", http.StatusOK, func(id string) (any, error) {
			return CordonView{Kind: "node", Name: id, Cordoned: cordoned}, s.Backend.CordonNode(c.r.Context(), id, cordoned, c.caller)
		})
	}
}

func (s *server) drain(c *call) error {
	return s.onNamed(c, "id", "node", http.StatusAccepted, func(id string) (any, error) {
		return DoneView{Kind: "node", Name: id, Done: "drain"}, s.Backend.DrainNode(c.r.Context(), id, c.caller)
	})
}
