package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
)

const (
	killsMax    = 10_000
	recoverTime = 60 * time.Second
)

// havoc is the verb chaos: what it kills, and how often.
type havoc struct {
	*app
	kills int
	every time.Duration
	pool  string
	seed  uint64
	force bool
}

func (h *havoc) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "chaos", Short: "Kill random workers of a running node, and check that they come back", Args: exactly(),
		Long: "Kill random workers of the node, one after the other, and wait until every worker is back. --seed decides the order, and is\n" +
			"printed. Work that is neither idempotent nor retried ends abandoned, so use this on test nodes only.",
	}
	f := cmd.Flags()
	f.IntVar(&h.kills, "kills", 10, "how many kills, 1 to 10000")
	f.DurationVar(&h.every, "every", time.Second, "time between two kills, 10ms or more")
	f.StringVar(&h.pool, "pool", "", "only workers of this pool")
	f.Uint64Var(&h.seed, "seed", 0, "order of the kills; 0: a new one")
	f.BoolVar(&h.force, "force", false, "also on a node of another machine")
	cmd.RunE = h.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
		if h.kills < 1 || h.kills > killsMax || h.every < 10*time.Millisecond {
			return usagef("want --kills 1 to %d and --every 10ms or more", killsMax)
		}
		if u, err := url.Parse(c.Server()); !h.force && (err != nil || !api.Loopback(u.Host)) {
			return usagef("%s is another machine's node; --force kills workers there too", c.Server())
		}
		if h.seed == 0 {
			h.seed = rand.Uint64()
		}
		return h.kill(ctx, c)
	})
	return cmd
}

func (h *havoc) kill(ctx context.Context, c *client.Client) error {
	random := rand.New(rand.NewPCG(h.seed, 0))
	fmt.Fprintf(h.err, "seed %d\n", h.seed)
	tick := time.NewTicker(h.every)
	defer tick.Stop()
	killed, last := map[messages.WorkerID]messages.Generation{}, time.Now()
	node, err := selfOf(ctx, c)
	if err != nil {
		return err
	}
	for range h.kills {
		list, err := allWorkers(ctx, c, url.Values{"pool": {h.pool}, "node": {node}})
		if err != nil {
			return err
		}
		workers := list.Workers
		if len(workers) == 0 {
			return fmt.Errorf("pool %q has no workers; `troupe pools` lists the pools", h.pool)
		}
		w := workers[random.IntN(len(workers))]
		if err := h.killOne(ctx, c, w); err != nil {
			return err
		}
		killed[w.ID], last = w.Generation, time.Now()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	if err := h.recovered(ctx, c, h.pool, node, killed); err != nil {
		return err
	}
	if h.output == "json" {
		return h.printJSON(mended{h.seed, h.kills, float64(time.Since(last).Microseconds()) / 1000})
	}
	_, err = fmt.Fprintf(h.out, "%d workers killed; all are back %s after the last one\n", h.kills, short(time.Since(last)))
	return err
}

// selfOf is the incarnation of the node that is asked, whose workers alone are killed; empty where it does not say.
func selfOf(ctx context.Context, c *client.Client) (string, error) {
	var v api.NodeList
	if err := c.Get(ctx, "/api/v1/nodes", &v); err != nil {
		return "", err
	}
	for i := range v.Nodes {
		if v.Nodes[i].Reach == "self" {
			return v.Nodes[i].Incarnation.String(), nil
		}
	}
	return "", nil
}

// mended is what chaos came to, for programs.
type mended struct {
	Seed     uint64  `json:"seed"`
	Kills    int     `json:"kills"`
	BackInMS float64 `json:"all_back_after_ms"` // after the last kill
}

// killOne kills a worker. One that is gone meanwhile, or on its way, is as good as killed.
func (h *havoc) killOne(ctx context.Context, c *client.Client, w view.Worker) error {
	path, err := workerPath(string(w.ID), "/kill")
	if err != nil {
		return err
	}
	err = c.Post(ctx, path, nil, nil)
	var answer *client.Error
	if errors.As(err, &answer) && (answer.Status == http.StatusNotFound || answer.Status == http.StatusConflict) {
		err = nil
	}
	if err == nil && h.output != "json" {
		fmt.Fprintf(h.err, "killed %s generation %d, %s\n", visible(string(w.ID)), w.Generation, visible(w.State))
	}
	return err
}

// recovered waits until every worker may work again, those that were killed in a later generation.
func (h *havoc) recovered(ctx context.Context, c *client.Client, pool, node string, killed map[messages.WorkerID]messages.Generation) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, recoverTime)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		list, err := allWorkers(ctx, c, url.Values{"pool": {pool}, "node": {node}})
		away := ""
		for _, w := range list.Workers {
			if w.State != "ready" && w.State != "busy" || w.Generation <= killed[w.ID] {
				away = string(w.ID) + " is " + w.State
			}
		}
		if err != nil || away == "" {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s worker %s; `troupe workers %s` shows why", short(time.Since(began)), away, firstWord(away))
		case <-tick.C:
		}
	}
}

func firstWord(s string) string {
	for i, r := range s {
		if r == ' ' {
			return s[:i]
		}
	}
	return s
}
