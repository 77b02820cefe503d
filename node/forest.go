package node

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-run/troupe/debug"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/operate"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/store"
)

// forest is the view of the actors of all nodes.
type forest struct {
	*base
	member  *member
	addr    func() string // where this node's API listens
	cluster *debug.Cluster
	shown   debug.Config     // what the node shows of its actors, to its own callers and to other nodes
	answers *debug.Inspector // to other nodes, about this one's actors
}

// newForest makes the view of the actors of all nodes, and what answers the others about this one's. The system is there.
func newForest(b *base, m *member, addr func() string, operator *operate.Operator, servers *watcher) *forest {
	f := &forest{base: b, member: m, addr: addr}
	f.cluster = debug.NewCluster(debug.ClusterConfig{Own: f.incarnation, Members: f.liveNodes, Ask: f.askActors})
	f.shown = debug.Config{
		Node: f.cfg.Name, Source: f.system.Registry, History: operator.ActorHistory, WaitsFor: servers.Waits, Cluster: f.cluster,
	}
	f.answers = debug.NewInspector(f.shown)
	return f
}

// rowsTime bounds the wait for the nodes' rows: while the store is away the tree is shown by what membership knows.
const rowsTime = 250 * time.Millisecond

// liveNodes are this incarnation and those that membership takes to live, with what their rows say of them.
func (f *forest) liveNodes(ctx context.Context) []debug.Member {
	state := store.NodeActive
	if f.phase.draining.Load() {
		state = store.NodeDraining
	}
	live := map[messages.Incarnation]store.Node{
		f.incarnation: {Incarnation: f.incarnation, Name: f.cfg.Name, State: state, Address: f.addr()},
	}
	f.member.mu.Lock()
	for inc, row := range f.member.up {
		live[inc] = row
	}
	f.member.mu.Unlock()
	for _, row := range f.nodeRows(ctx) {
		if _, lives := live[row.Incarnation]; lives {
			live[row.Incarnation] = row
		}
	}
	members := make([]debug.Member, 0, len(live))
	for inc, row := range live {
		members = append(members, debug.Member{
			Incarnation: inc, Name: row.Name, State: string(row.State), Cordoned: row.Cordoned, Address: row.Address, Started: row.StartedAt,
		})
	}
	return members
}

// nodeRows are the rows of all nodes, where the store answers soon.
func (f *forest) nodeRows(ctx context.Context) []store.Node {
	if !f.phase.open.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, rowsTime)
	defer cancel()
	rows, err := f.store.ListNodes(ctx)
	if err != nil {
		f.logger.Debug("the rows of the nodes were not read; the tree shows what membership knows", "error", err)
		return nil
	}
	return rows
}

// askActors asks another incarnation for its actors. Its errors are for people to read.
func (f *forest) askActors(ctx context.Context, to messages.Incarnation, q wire.Inspect) (wire.InspectResult, error) {
	if f.peers == nil {
		return wire.InspectResult{}, errors.New("this node listens for no peers; set its node.peers_listen")
	}
	reply, err := f.peers.AskAgain(ctx, to, messages.Placement{}, q)
	switch answer := reply.(type) {
	case wire.InspectResult:
		return answer, nil
	case wire.Ack:
		return wire.InspectResult{}, errors.New(answer.Refused)
	}
	return wire.InspectResult{}, whyUnasked(err)
}

// whyUnasked says for people why a peer did not answer.
func whyUnasked(err error) error {
	switch {
	case errors.Is(err, peers.ErrUnknown):
		return errors.New("it listens for no peers that this node can reach; give both a node.peers_listen that the other can dial")
	case errors.Is(err, peers.ErrUnsupported):
		return errors.New("it runs a release that cannot be asked for its actors")
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("it does not answer")
	case err == nil:
		return errors.New("its answer is not one that this release understands")
	}
	return err
}

// handlers answer other nodes.
func (f *forest) handlers() []peers.Handler {
	return []peers.Handler{peers.HandleLong(inspectTime, f.inspected)}
}

// inspectTime bounds an answer to another node: a worker is asked for its history.
const inspectTime = 2 * time.Second

// inspected answers another node that asks for this one's actors.
func (f *forest) inspected(ctx context.Context, _ peers.Request, q wire.Inspect) (wire.Body, error) {
	return f.answers.Inspect(ctx, q), nil
}
