package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/direct"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/peers"
	troupev1 "github.com/troupe-run/troupe/proto/troupe/v1"
)

// openDirect lets a broker's adapter reach the queues of other nodes that share the store.
func (nw *network) openDirect(local broker.Broker) broker.Broker {
	if !nw.cfg.full() {
		return local
	}
	cfg := direct.Config{
		Local: local, Own: nw.incarnation, Settings: nw.cfg.Broker, Post: nw.post,
		Limits: direct.Limits{Messages: wire.PublishMax, Bytes: wire.PublishBytesMax},
	}
	if nw.cfg.beside() {
		cfg.Posts = nw.posts
	}
	nw.direct = direct.New(cfg)
	return nw.direct
}

// errNoPeers says that this node speaks to no other one.
var errNoPeers = errors.New("this node reaches no other one: its node.peers_listen is off")

// post puts messages on queues of another node's workers.
func (nw *network) post(ctx context.Context, to messages.Incarnation, list []broker.Message) ([]broker.Confirm, error) {
	if nw.peers == nil {
		return nil, errNoPeers
	}
	body := wire.Publish{Messages: make([]wire.QueueMessage, len(list))}
	for i := range list {
		body.Messages[i] = wire.QueueMessage{Queue: list[i].RoutingKey, Body: list[i].Body, Expiration: list[i].Expiration}
	}
	reply, err := nw.peers.Ask(ctx, to, messages.Placement{}, body)
	if err != nil {
		return nil, err
	}
	switch answer := reply.(type) {
	case wire.PublishResult:
		if len(answer.Confirms) != len(list) {
			return nil, fmt.Errorf("peer %s confirms %d messages of %d", to, len(answer.Confirms), len(list))
		}
		confirms := make([]broker.Confirm, len(list))
		for i, c := range answer.Confirms {
			confirms[i] = confirmOf[c]
		}
		return confirms, nil
	case wire.Ack:
		return nil, fmt.Errorf("peer %s takes no messages: %s", to, answer.Refused)
	}
	return nil, fmt.Errorf("peer %s answers a publish with %T", to, reply)
}

// published answers another node that has messages for queues of this node's workers.
func (nw *network) published(ctx context.Context, _ peers.Request, p wire.Publish) (wire.Body, error) {
	list := make([]broker.Message, len(p.Messages))
	for i, m := range p.Messages {
		list[i] = broker.Message{RoutingKey: m.Queue, Body: m.Body, Expiration: m.Expiration}
	}
	confirms, err := nw.direct.Accept(ctx, list)
	if err != nil && len(confirms) != len(list) {
		return nil, err
	}
	result := wire.PublishResult{Confirms: make([]troupev1.PublishConfirm, len(list))}
	for i, c := range confirms {
		result.Confirms[i] = onWire[c]
	}
	return result, nil
}

// handlers answer a Publish. A broker in this process never waits; a server may.
func (nw *network) handlers() []peers.Handler {
	if nw.cfg.onlyDirect() {
		return []peers.Handler{peers.Handle(nw.published)}
	}
	return []peers.Handler{peers.HandleLong(direct.PostTime, nw.published)}
}

// onWire and confirmOf are the confirms as nodes tell them to each other.
var (
	onWire = map[broker.Confirm]troupev1.PublishConfirm{
		broker.Confirmed: troupev1.PublishConfirm_PUBLISH_CONFIRM_CONFIRMED, broker.Returned: troupev1.PublishConfirm_PUBLISH_CONFIRM_RETURNED,
		broker.Nacked: troupev1.PublishConfirm_PUBLISH_CONFIRM_NACKED, broker.Unknown: troupev1.PublishConfirm_PUBLISH_CONFIRM_UNKNOWN,
	}
	confirmOf = map[troupev1.PublishConfirm]broker.Confirm{
		troupev1.PublishConfirm_PUBLISH_CONFIRM_CONFIRMED: broker.Confirmed, troupev1.PublishConfirm_PUBLISH_CONFIRM_RETURNED: broker.Returned,
		troupev1.PublishConfirm_PUBLISH_CONFIRM_NACKED: broker.Nacked, troupev1.PublishConfirm_PUBLISH_CONFIRM_UNKNOWN: broker.Unknown,
	}
)
