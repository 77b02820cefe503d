package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/cmd/troupe/config"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/store/postgres"
)

// dispatch says how nodes with this configuration hand executions to workers, and why.
func dispatch(l *config.Loaded) finding {
	server := l.Broker.RabbitMQ.URL != ""
	way := l.Dispatching.Of("", server)
	detail, direct := way+": ", way == node.DispatchDirect
	switch {
	case !server:
		detail += "nodes hand work to each other, without RabbitMQ"
	case direct:
		detail += "dispatch says so; RabbitMQ carries submissions, notices and dead letters of other programs"
	case l.Dispatch == "":
		detail += "work goes over RabbitMQ, because message_queue.rabbitmq.url is set"
	default:
		detail += "work goes over RabbitMQ, because dispatch says so"
	}
	for _, name := range slices.Sorted(maps.Keys(l.Pools)) {
		if other := l.Dispatching.Of(name, server); other != way {
			detail += fmt.Sprintf("; pool %s: %s", name, other)
			direct = direct || other == node.DispatchDirect
		}
	}
	detail = clipTo(detail, 1000)
	if direct && l.Node.Peers.Listen == peers.Off {
		return warn(detail+"; and node.peers_listen is off: each node runs only what its own workers take",
			"give node.peers_listen an address, so that nodes can hand work to each other")
	}
	return ok(detail)
}

// dispatchBeside is the same beside a server, with the live nodes that do otherwise. Which way a pool's workers get their work shows by their
// queue, which the server has or not.
func dispatchBeside(ctx context.Context, b broker.Broker, l *config.Loaded, s broker.Settings, live []postgres.WorkerRow) finding {
	f := dispatch(l)
	var others []string
	for i := range live {
		label, pool, _, ok := live[i].ID.Split()
		if !ok {
			continue
		}
		way, err := wayOf(ctx, b, queueNames(s, live[i:i+1]))
		if err != nil {
			break // the other findings say what is wrong with the server
		}
		if way != l.Dispatching.Of(pool, true) {
			others = append(others, fmt.Sprintf("%s on node %s: %s", pool, label, way))
		}
	}
	if len(others) > 0 && f.State == "ok" {
		f.Advice = "these pools do otherwise: " + clipTo(strings.Join(others, ", "), 1000) +
			". That works while nodes are changed one after the other; then give all nodes the same dispatch and pools"
	}
	return f
}

// wayOf is how workers with one of these queues get their work.
func wayOf(ctx context.Context, b broker.Broker, queues []string) (string, error) {
	for _, queue := range queues {
		switch _, err := b.Inspect(ctx, queue); {
		case err == nil:
			return node.DispatchBroker, nil
		case !errors.Is(err, broker.ErrNoQueue):
			return "", err
		}
	}
	return node.DispatchDirect, nil
}
