package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/memory"
	"github.com/troupe-run/troupe/broker/split"
)

// The ways by which executions go to workers.
const (
	DispatchDirect = "direct" // as messages between the nodes; the worker's claim places them
	DispatchBroker = "broker" // over the workers' queues on the broker server; the store has the placement first
)

// Dispatching says how executions go to workers.
type Dispatching struct {
	Dispatch string       `yaml:"dispatch" help:"How executions go to workers. direct: the nodes hand them to each other. broker: over the workers' queues on RabbitMQ. Empty: broker with message_queue.rabbitmq.url, else direct, which is then the only one. Submissions by AMQP, notices and dead letters use RabbitMQ in either case."`
	Pools    PoolSettings `yaml:"pools" help:"Settings of pools by their names: NAME: {dispatch: direct} or NAME: {dispatch: broker}, where a pool has another dispatch than the node. In the environment: NAME:direct, joined by commas."`
}

// PoolSettings are what an operator sets for pools, by their names.
type PoolSettings map[string]PoolSetting

// PoolSetting is what an operator sets for one pool.
type PoolSetting struct {
	Dispatch string `yaml:"dispatch"` // empty: the node's
}

// String shows the settings by the names of their pools.
func (p PoolSettings) String() string {
	list := make([]string, 0, len(p))
	for _, name := range slices.Sorted(maps.Keys(p)) {
		list = append(list, name+":"+p[name].Dispatch)
	}
	return strings.Join(list, ",")
}

// Of is the way of a pool. server: there is a broker server.
func (d *Dispatching) Of(pool string, server bool) string {
	switch own := d.Pools[pool].Dispatch; {
	case own != "":
		return own
	case d.Dispatch != "":
		return d.Dispatch
	case server:
		return DispatchBroker
	}
	return DispatchDirect
}

// uses reports whether a pool may have the way.
func (d *Dispatching) uses(way string, server bool) bool {
	if d.Of("", server) == way {
		return true
	}
	for name := range d.Pools {
		if d.Of(name, server) == way {
			return true
		}
	}
	return false
}

// DispatchProblem is what is wrong with one of the settings.
type DispatchProblem struct{ Key, Text string }

// Problems is what is wrong with the settings. Without a server the way of the broker is refused: the node would keep the queues in its own
// memory, and the store would get a placement of each execution that nothing needs.
func (d *Dispatching) Problems(server bool) (list []DispatchProblem) {
	judge := func(key, subject, way string) {
		switch {
		case way == "" || way == DispatchDirect || way == DispatchBroker && server:
		case way == DispatchBroker:
			list = append(list, DispatchProblem{key, subject +
				"broker needs a RabbitMQ: set message_queue.rabbitmq.url, or use direct, by which nodes without it hand work to each other"})
		default:
			list = append(list, DispatchProblem{key, fmt.Sprintf("%smust be direct, broker or empty, got %q", subject, way)})
		}
	}
	judge("dispatch", "", d.Dispatch)
	for _, name := range slices.Sorted(maps.Keys(d.Pools)) {
		if name == "" || strings.ContainsAny(name, "/,: \t\n\x00") {
			list = append(list, DispatchProblem{"pools", fmt.Sprintf("%q is not the name of a pool", name)})
			continue
		}
		judge("pools", name+".dispatch: ", d.Pools[name].Dispatch)
	}
	return list
}

// server reports whether there is a broker server, or an adapter that a program brings along.
func (c *Config) server() bool { return c.BrokerURL != "" || c.OpenBroker != nil }

// dispatchOf is the way of a pool.
func (c *Config) dispatchOf(pool string) string { return c.Dispatching.Of(pool, c.server()) }

// direct reports whether a pool's executions go to workers without a broker server.
func (c *Config) direct(pool string) bool { return c.dispatchOf(pool) == DispatchDirect }

// handsOver reports whether a pool's router hands executions to workers directly, and their claims place them. Without the claim sweep the
// placements are stored, so that the layers of defence behind it find them.
func (c *Config) handsOver(pool string) bool { return c.direct(pool) && !c.ClaimSweepOff }

// beside reports whether some pools have their queues in memory beside a server.
func (c *Config) beside() bool { return c.server() && c.uses(DispatchDirect, true) }

// onlyDirect reports whether no pool uses the broker server, if there is one.
func (c *Config) onlyDirect() bool { return !c.uses(DispatchBroker, c.server()) }

// openSplit keeps the queues of the direct pools' workers in memory, beside a server.
func (nw *network) openSplit(ctx context.Context, server broker.Broker) (broker.Broker, error) {
	if !nw.cfg.beside() {
		return server, nil
	}
	near := memory.New(memory.Config{})
	if err := near.Declare(ctx, nw.cfg.Broker.NearDeadLetters()); err != nil {
		return nil, fmt.Errorf("make the dead-letter queue of the workers that get their work directly: %w", err)
	}
	return split.New(split.Config{Server: server, Near: near, IsNear: nw.isNear}), nil
}

// isNear reports whether a queue is in this node's memory, beside a server: it is of a direct pool's workers, or has their dead letters.
func (nw *network) isNear(queue string) bool {
	owner, ok := nw.cfg.Broker.ParseQueueName(queue)
	if !ok {
		return nw.cfg.beside() && queue == nw.cfg.Broker.NearDeadLetterQueue()
	}
	return owner.Incarnation == nw.incarnation && nw.cfg.beside() && nw.cfg.direct(owner.Pool)
}

// posts reports whether messages for a queue of another node's workers go to that node at once.
func (nw *network) posts(owner broker.QueueOwner) bool { return nw.cfg.direct(owner.Pool) }
