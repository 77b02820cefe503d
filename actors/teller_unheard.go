package actors

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// unheardMax bounds the routes that are remembered. At the bound all are forgotten, which costs one published page.
const unheardMax = 1000

// unheardRoutes has the routes whose last notice no queue got. The store need not read the notices of such a route, except the first
// of each page (store.ReadNotices). That one is published before the page, and after the page was read. So a queue that was
// bound before one of the page's executions ended gets it, and then the page is read again, whole.
type unheardRoutes struct{ routes store.NoticeRoutes }

// copy is for a read beside the round.
func (u *unheardRoutes) copy() store.NoticeRoutes { return maps.Clone(u.routes) }

// learn takes the confirm of a notice.
func (u *unheardRoutes) learn(route store.NoticeRoute, confirm broker.Confirm) {
	switch {
	case route == store.NoticeRoute{}:
	case confirm != broker.Returned:
		delete(u.routes, route)
	case !u.routes.Has(route):
		if u.routes == nil || len(u.routes) >= unheardMax {
			u.routes = store.NoticeRoutes{}
		}
		u.routes[route] = struct{}{}
	}
}

// routeOf is the route of a notice whose message has the same key and headers as those that a store does not read, and which
// follows no other notice; else zero.
func routeOf(e *messages.Execution) store.NoticeRoute {
	if e.Trace != "" || !e.Original.IsZero() {
		return store.NoticeRoute{}
	}
	return store.NoticeRoute{Status: e.Status, Action: e.Action}
}

// probe publishes the first notice of each route of which the page has unread ones. If no queue gets any of them, nor would one
// get the unread ones: all of them are told, and the page has only its others left. Otherwise the page must be read again.
func (t *teller) probe(ctx context.Context, p *noticePage) (whole bool, err error) {
	if len(p.Unread) == 0 {
		return true, nil
	}
	firsts, probes := p.firsts()
	confirms, kept, _ := t.send(ctx, probes) // an error of the broker shows again when the page is published
	if err := errors.Join(ctx.Err(), kept); err != nil {
		return false, err
	}
	whole = true
	for route := range p.Unread {
		confirm := broker.Unknown // its first one was purged, or not confirmed
		if k := slices.IndexFunc(firsts, func(i int) bool { return p.routes[i] == route }); k >= 0 && k < len(confirms) {
			confirm = confirms[k]
		}
		t.unheard.learn(route, confirm)
		whole = whole && confirm == broker.Returned
	}
	if whole {
		t.count("unheard", p.size()-p.total+len(firsts))
		p.drop(firsts)
	}
	return whole, nil
}

// firsts are the indexes of the first message of each route that has unread ones, and those messages.
func (p *noticePage) firsts() (firsts []int, probes []broker.Message) {
	seen := store.NoticeRoutes{}
	for i, route := range p.routes {
		if _, more := p.Unread[route]; more && !seen.Has(route) {
			seen[route] = struct{}{}
			firsts, probes = append(firsts, i), append(probes, p.messages[i])
		}
	}
	return firsts, probes
}

// drop removes the messages of those indexes, in ascending order, and what was not read.
func (p *noticePage) drop(indexes []int) {
	for _, i := range slices.Backward(indexes) {
		p.messages, p.ids, p.routes = slices.Delete(p.messages, i, i+1), slices.Delete(p.ids, i, i+1), slices.Delete(p.routes, i, i+1)
	}
	p.total, p.Unread = len(p.messages), nil
}
