package node

import (
	"context"

	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/supervisor"
)

// lookElsewhere tells the pools which other nodes have workers of theirs. It asks nothing while no other node lives, or all
// that live share their routers.
func (n *Node) lookElsewhere(ctx context.Context) error {
	if !n.looksElsewhere() {
		return nil
	}
	served, err := n.operator.Remote.Served(ctx)
	if err != nil {
		return err
	}
	for name, handle := range n.pools.all() {
		n.system.Send(handle.pid, &supervisor.Elsewhere{Beats: served[name]})
	}
	return nil
}

// thresholds are the borders between the grades on this node.
func (n *Node) thresholds() health.Thresholds {
	t := n.cfg.Thresholds
	t.Heartbeat, t.Off = health.Limit(n.cfg.HeartbeatInterval, n.cfg.StalenessMultiplier), n.cfg.HealthDisabled
	return t
}
