package debug

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
)

// Bounds of the view of a cluster. A node is asked again once its answer is older than freshTime. So a viewer sees a
// change after freshTime and the time of an answer, or at its next request if that is later.
const (
	freshTime   = 300 * time.Millisecond // age from which a node is asked again
	waitTime    = time.Second            // to wait for nodes; a later answer serves the next request
	failingTime = 100 * time.Millisecond // to wait for nodes that failed the last time or are late; they are still asked
	askTime     = 2 * time.Second        // for one page of one node
	wholeTime   = 10 * time.Second       // for all of them
	queueTime   = 3 * time.Second        // to wait for a node's turn, and after which a running request counts as late
	asksMax     = 32                     // nodes that are asked concurrently
	actorsMax   = 128 << 10              // of all nodes together
	actorsLeast = 256                    // of each node, for any number of nodes
)

// Forest is the answer of /debug/actors?cluster=1: the trees of all live nodes, this one's first.
type Forest struct {
	At    time.Time `json:"at"`
	Nodes []Part    `json:"nodes"`
}

// Part is one node's part of a forest.
type Part struct {
	Node        string               `json:"node"`
	Incarnation messages.Incarnation `json:"incarnation"`
	State       string               `json:"state"`
	Cordoned    bool                 `json:"cordoned,omitempty"`
	Address     string               `json:"address,omitempty"` // of its API
	Own         bool                 `json:"own,omitempty"`     // the answering node itself
	// SeenAt is when this node asked for the tree, and AgeMS how long ago that was. Both are missing without a tree.
	SeenAt time.Time `json:"seen_at,omitzero"`
	AgeMS  *int64    `json:"age_ms,omitempty"`
	Error  string    `json:"error,omitempty"` // why there is no newer answer
	Tree   *Tree     `json:"tree,omitempty"`
}

// Member is a live incarnation.
type Member struct {
	Incarnation messages.Incarnation
	Name, State string
	Cordoned    bool
	Address     string // of its API
	Started     time.Time
}

// ClusterConfig configures a Cluster. All fields are required.
type ClusterConfig struct {
	Own messages.Incarnation
	// Members returns all live incarnations, including this one. It is called at most once in freshTime.
	Members func(context.Context) []Member
	// Ask asks another incarnation. Its error is shown to people.
	Ask func(ctx context.Context, to messages.Incarnation, q wire.Inspect) (wire.InspectResult, error)
}

// Cluster keeps the last answers of the other nodes about their actors, and asks them on request. Each node gets only
// one request at a time, for any number of viewers.
type Cluster struct {
	cfg    ClusterConfig
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	turns  chan struct{}

	listing sync.Mutex // held during Members
	members []Member
	listed  time.Time

	mu     sync.Mutex
	closed bool
	asks   sync.WaitGroup
	known  map[messages.Incarnation]*known // the other live incarnations
	most   int                             // maximum of actors for each node
}

// known is the last answer of one node.
type known struct {
	roster *roster       // nil: no answer yet
	asked  time.Time     // when the roster was asked for
	failed time.Time     // time of the last failed request; zero: the last one succeeded
	err    string        // why it failed
	asking chan struct{} // closed when the answer has arrived; nil: no request runs
	begun  time.Time     // start of the running request
}

// NewCluster makes a view of the cluster. Close ends it.
func NewCluster(cfg ClusterConfig) *Cluster {
	c := &Cluster{cfg: cfg, turns: make(chan struct{}, asksMax), known: map[messages.Incarnation]*known{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Close ends the running requests, and waits for them.
func (c *Cluster) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.asks.Wait()
}

// list returns the live incarnations, this one first, then by name.
func (c *Cluster) list(ctx context.Context, cfg *Config) []Member {
	if c == nil {
		return []Member{{Name: cfg.Node, State: "active"}}
	}
	c.listing.Lock()
	defer c.listing.Unlock()
	if c.members == nil || time.Since(c.listed) > freshTime {
		c.members, c.listed = c.cfg.Members(ctx), time.Now()
		slices.SortFunc(c.members, func(a, b Member) int {
			return cmp.Or(rank(a.Incarnation == c.cfg.Own, b.Incarnation == c.cfg.Own), strings.Compare(a.Name, b.Name),
				a.Started.Compare(b.Started), strings.Compare(a.Incarnation.String(), b.Incarnation.String()))
		})
		c.remember(c.members)
	}
	return c.members
}

// rank orders true before false.
func rank(a, b bool) int {
	switch {
	case a && !b:
		return -1
	case b && !a:
		return 1
	}
	return 0
}

// find returns the live node with a name, an incarnation, or both as in name@1f0c22ab.
func (c *Cluster) find(ctx context.Context, cfg *Config, node string) (Member, *refusal) {
	var found []Member
	members := c.list(ctx, cfg)
	for _, m := range members {
		if node == m.Name || node == m.Incarnation.String() || node == m.Name+"@"+m.Incarnation.Short() {
			found = append(found, m)
		}
	}
	switch len(found) {
	case 0:
		names := make([]string, len(members))
		for i, m := range members {
			names[i] = m.Name
		}
		return Member{}, unknown(fmt.Sprintf("no live node %s is known here; live are %s", shorten(node, 128), shorten(strings.Join(names, ", "), 512)))
	case 1:
		return found[0], nil
	}
	ids := make([]string, len(found))
	for i, m := range found {
		ids[i] = m.Incarnation.String()
	}
	return Member{}, &refusal{http.StatusConflict, "ambiguous_node", fmt.Sprintf("%d live nodes are called %s; name one by its incarnation: %s",
		len(found), shorten(node, 128), shorten(strings.Join(ids, ", "), 512))}
}

// own reports whether a member is this node itself.
func (c *Cluster) own(m Member) bool { return c == nil || m.Incarnation == c.cfg.Own }

// view shows all nodes.
func (c *Cluster) view(ctx context.Context, cfg *Config, f filter) *Forest {
	members := c.list(ctx, cfg)
	c.refresh(ctx, members, failingTime)
	forest := &Forest{At: time.Now().UTC(), Nodes: make([]Part, len(members))}
	for i, m := range members {
		forest.Nodes[i] = c.show(cfg, m, f)
	}
	return forest
}

// part shows one node. It also waits for a node that failed the last time.
func (c *Cluster) part(ctx context.Context, cfg *Config, m Member, f filter) Part {
	c.refresh(ctx, []Member{m}, waitTime)
	return c.show(cfg, m, f)
}

// show makes the part of a node from its last answer.
func (c *Cluster) show(cfg *Config, m Member, f filter) Part {
	p := Part{Node: m.Name, Incarnation: m.Incarnation, State: m.State, Cordoned: m.Cordoned, Address: m.Address}
	if c.own(m) {
		r := cfg.list()
		p.Own, p.SeenAt, p.AgeMS, p.Tree = true, r.At, new(int64), r.tree(f)
		return p
	}
	c.mu.Lock()
	k := c.known[m.Incarnation]
	if k == nil {
		c.mu.Unlock()
		p.Error = "it has ended"
		return p
	}
	r, asked, err, late := k.roster, k.asked, k.err, k.asking != nil && (k.roster == nil || time.Since(k.begun) > queueTime)
	c.mu.Unlock()
	if r != nil {
		age := time.Since(asked).Milliseconds()
		p.SeenAt, p.AgeMS, p.Tree = asked.UTC(), &age, r.tree(f)
	}
	if p.Error = err; err == "" && late {
		p.Error = "it has not answered yet"
	}
	return p
}

// refresh asks the nodes whose answers are too old, and waits for them. It waits no longer than patience for nodes that
// failed the last time.
func (c *Cluster) refresh(ctx context.Context, members []Member, patience time.Duration) {
	if c == nil {
		return
	}
	sound, failing := c.begin(members)
	all := time.NewTimer(waitTime)
	defer all.Stop()
	await(ctx, sound, all.C)
	some := time.NewTimer(patience)
	defer some.Stop()
	await(ctx, failing, some.C)
}

// await waits for the answers until over.
func await(ctx context.Context, answers []chan struct{}, over <-chan time.Time) {
	for _, a := range answers {
		select {
		case <-a:
		case <-over:
			return
		case <-ctx.Done():
			return
		}
	}
}

// remember adds entries for live incarnations, and removes those of ended ones.
func (c *Cluster) remember(members []Member) {
	live := make(map[messages.Incarnation]bool, len(members))
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range members {
		live[m.Incarnation] = true
		if c.known[m.Incarnation] == nil && !c.own(m) {
			c.known[m.Incarnation] = &known{}
		}
	}
	maps.DeleteFunc(c.known, func(inc messages.Incarnation, _ *known) bool { return !live[inc] })
	c.most = max(actorsLeast, actorsMax/max(1, len(members)))
}

// begin asks the nodes whose answers are too old, unless a request runs already.
func (c *Cluster) begin(members []Member) (sound, failing []chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range members {
		k := c.known[m.Incarnation]
		if k == nil || c.closed {
			continue
		}
		if k.asking == nil && time.Since(k.asked) > freshTime && time.Since(k.failed) > freshTime {
			k.asking, k.begun = make(chan struct{}), time.Now()
			most := c.most
			c.asks.Go(func() { c.ask(k, m.Incarnation, most) })
		}
		switch {
		case k.asking == nil:
		case k.failed.IsZero() && time.Since(k.begun) < waitTime:
			sound = append(sound, k.asking)
		default:
			failing = append(failing, k.asking)
		}
	}
	return sound, failing
}

// ask asks one node and records its answer or its failure.
func (c *Cluster) ask(k *known, inc messages.Incarnation, most int) {
	r, asked, err := c.inTurn(inc, most)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		k.failed, k.err = time.Now(), err.Error()
	} else {
		k.roster, k.asked, k.failed, k.err = r, asked, time.Time{}, ""
	}
	close(k.asking)
	k.asking = nil
}

var errTurn = errors.New("its turn did not come: too many nodes are being asked")

// inTurn asks one node, at most asksMax at a time.
func (c *Cluster) inTurn(inc messages.Incarnation, most int) (*roster, time.Time, error) {
	queued, leave := context.WithTimeout(c.ctx, queueTime)
	defer leave()
	select {
	case c.turns <- struct{}{}:
		defer func() { <-c.turns }()
	case <-queued.Done():
		return nil, time.Time{}, errTurn
	}
	asked := time.Now()
	ctx, cancel := context.WithTimeout(c.ctx, wholeTime)
	defer cancel()
	r, err := collect(ctx, c.asker(inc), most)
	return r, asked, err
}

func (c *Cluster) asker(inc messages.Incarnation) asking {
	return func(ctx context.Context, q wire.Inspect) (wire.InspectResult, error) {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		return c.cfg.Ask(ctx, inc, q)
	}
}

// detail asks a node about one of its actors.
func (c *Cluster) detail(ctx context.Context, cfg *Config, m Member, id string) (Detail, *refusal) {
	if c.own(m) {
		d, known := cfg.describe(ctx, id)
		if !known {
			return d, unknown(unknownText(id))
		}
		return d, nil
	}
	if len(id) > cursorMax {
		return Detail{}, unknown(unknownText(id))
	}
	d, refused, err := askOne(ctx, c.asker(m.Incarnation), id)
	switch {
	case err != nil:
		return d, unreachable(m, err.Error())
	case refused != "":
		return d, unknown("node " + m.Name + ": " + refused)
	}
	return d, nil
}
