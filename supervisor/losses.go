package supervisor

import (
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// losses are the nodes that died, until their workers are back: the router of a pool counts the downtime of each, once, when
// the node's next boot reports it ready. The node itself cannot: it was not there.
type losses struct{ nodes map[string]*loss }

type loss struct {
	of   messages.Incarnation
	at   time.Time // a moment of this process
	back map[messages.Slot]struct{}
	// beside are the incarnations that lived then: another node may have the same name.
	beside map[messages.Incarnation]struct{}
}

// Bounds of what is remembered. A node that stays away so long was taken away on purpose.
const (
	lossesMax = 1000
	lossAge   = 24 * time.Hour
)

// died notes a node's death, by its name; one that drained has left on purpose.
func (l *losses) died(n *store.Node, at time.Time, beside map[messages.Incarnation]*follower) {
	if n.State == store.NodeDraining || n.Name == "" {
		return
	}
	for name, lost := range l.nodes {
		if at.Sub(lost.at) > lossAge {
			delete(l.nodes, name)
		}
	}
	if l.nodes == nil {
		l.nodes = map[string]*loss{}
	}
	if len(l.nodes) >= lossesMax {
		return
	}
	lost := &loss{of: n.Incarnation, at: at, back: map[messages.Slot]struct{}{}, beside: map[messages.Incarnation]struct{}{}}
	for inc := range beside {
		lost.beside[inc] = struct{}{}
	}
	l.nodes[n.Name] = lost
}

// forget leaves a node that is back to the router that it reports to.
func (l *losses) forget(name string) { delete(l.nodes, name) }

// returned reports how long a worker was away that is ready now; 0: its node had not died, or it was counted before.
func (l *losses) returned(id messages.WorkerID, key messages.WorkerKey, now time.Time) time.Duration {
	if len(l.nodes) == 0 {
		return 0
	}
	node, _, _, _ := id.Split()
	name, _, _ := strings.Cut(node, "@")
	lost := l.nodes[name]
	if lost == nil || lost.of == key.Incarnation {
		return 0
	}
	if _, lived := lost.beside[key.Incarnation]; lived {
		return 0
	}
	if _, counted := lost.back[key.Slot]; counted {
		return 0
	}
	lost.back[key.Slot] = struct{}{}
	return max(now.Sub(lost.at), 0)
}
