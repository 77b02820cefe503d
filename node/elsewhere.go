package node

import (
	"github.com/troupe-run/troupe/rules/health"
)

// thresholds are the borders between the grades on this node.
func (n *Node) thresholds() health.Thresholds {
	t := n.cfg.Thresholds
	t.Heartbeat, t.Off = health.Limit(n.cfg.HeartbeatInterval, n.cfg.StalenessMultiplier), n.cfg.HealthDisabled
	return t
}
