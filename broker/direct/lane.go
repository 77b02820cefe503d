package direct

import (
	"context"
	"errors"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
)

// errFull: too many messages wait for a node.
var errFull = errors.New("too many messages wait for the node")

// post has the messages of one Publish for one node. Its lane sets confirms and err, and then closes done.
type post struct {
	ctx      context.Context // of the caller; messages are not sent after its end
	to       messages.Incarnation
	list     []broker.Message
	places   []int // indexes of the messages in the caller's list
	confirms []broker.Confirm
	err      error
	done     chan struct{}
}

// wait returns a confirm for each message. After the end of the caller's context it is Unknown; the message may still
// be sent.
func (p *post) wait() ([]broker.Confirm, error) {
	select {
	case <-p.done:
		return p.confirms, p.err
	case <-p.ctx.Done():
		return unknown(len(p.list)), context.Cause(p.ctx)
	}
}

// end answers the caller.
func (p *post) end(confirms []broker.Confirm, err error) {
	p.confirms, p.err = confirms, err
	close(p.done)
}

// unknown returns count confirms Unknown.
func unknown(count int) []broker.Confirm { return all(count, broker.Unknown) }

func all(count int, c broker.Confirm) []broker.Confirm {
	confirms := make([]broker.Confirm, count)
	for i := range confirms {
		confirms[i] = c
	}
	return confirms
}

// lane has the posts that wait for one node.
type lane struct {
	waiting  []*post
	messages int // number in these posts
}

// enqueue adds a post to its node's lane. If the lane has no sender, it starts one.
func (b *Broker) enqueue(p *post) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.lanes[p.to]
	switch {
	case b.closed:
		p.end(unknown(len(p.list)), broker.ErrClosed)
		return
	case l == nil:
		l = &lane{}
		b.lanes[p.to] = l
		b.senders.Go(func() { b.send(p.to, l) })
	case l.messages+len(p.list) > waitingMax:
		p.end(all(len(p.list), broker.Nacked), errFull)
		return
	}
	l.waiting, l.messages = append(l.waiting, p), l.messages+len(p.list)
}

// take returns the waiting posts of a lane. If there are none, it returns nil and removes the lane.
func (b *Broker) take(to messages.Incarnation, l *lane) []*post {
	b.mu.Lock()
	defer b.mu.Unlock()
	posts := l.waiting
	l.waiting, l.messages = nil, 0
	if posts == nil {
		delete(b.lanes, to)
	}
	return posts
}

// send posts the waiting messages of a lane until there are none.
func (b *Broker) send(to messages.Incarnation, l *lane) {
	for {
		posts := b.take(to, l)
		if posts == nil {
			return
		}
		var list []broker.Message
		live := posts[:0]
		for _, p := range posts {
			if p.ctx.Err() != nil {
				p.end(unknown(len(p.list)), context.Cause(p.ctx)) // the caller no longer waits
				continue
			}
			live, list = append(live, p), append(list, p.list...)
		}
		confirms, err := b.postAll(to, list)
		for _, p := range live {
			own := confirms[:len(p.list):len(p.list)]
			confirms = confirms[len(p.list):]
			p.end(own, errorOf(own, err))
		}
	}
}

// errorOf returns the error of a post with these confirms.
func errorOf(confirms []broker.Confirm, err error) error {
	for _, c := range confirms {
		if c == broker.Unknown {
			return err
		}
	}
	return nil
}

// postAll posts a list in parts within the limits, and returns a confirm for each message. The first error ends it: the
// rest is Unknown.
func (b *Broker) postAll(to messages.Incarnation, list []broker.Message) ([]broker.Confirm, error) {
	confirms := unknown(len(list))
	for from := 0; from < len(list); {
		until := b.cfg.Limits.part(list, from)
		ctx, cancel := context.WithTimeout(context.Background(), PostTime)
		got, err := b.cfg.Post(ctx, to, list[from:until])
		cancel()
		copy(confirms[from:until], got)
		if err != nil {
			return confirms, err
		}
		from = until
	}
	return confirms, nil
}

// part returns the end of the part that starts at from. It has at least one message.
func (l Limits) part(list []broker.Message, from int) (until int) {
	bytes := 0
	for until = from; until < len(list) && until-from < l.Messages; until++ {
		if bytes += len(list[until].Body); bytes > l.Bytes && until > from {
			break
		}
	}
	return until
}
