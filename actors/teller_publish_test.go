package actors

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/test/still"
)

// fullStore cannot write down what was told.
type fullStore struct{ store.Store }

func (fullStore) NoticesTold(context.Context, int64, time.Duration, store.ToldNotices) error {
	return store.ErrFull
}

// slowBroker confirms nothing before the call is canceled.
type slowBroker struct{ broker.Broker }

func (slowBroker) Status() broker.Status { return broker.Status{Up: true} }

func (slowBroker) Publish(ctx context.Context, all []broker.Message) ([]broker.Confirm, error) {
	<-ctx.Done()
	return make([]broker.Confirm, len(all)), ctx.Err()
}

// pickyBroker can never take one message, and a queue of it refuses another.
type pickyBroker struct {
	broker.Broker
	never, full string
	taken       []string
}

func (*pickyBroker) Status() broker.Status { return broker.Status{Up: true} }

func (b *pickyBroker) Publish(_ context.Context, all []broker.Message) ([]broker.Confirm, error) {
	confirms := make([]broker.Confirm, len(all))
	for i := range all {
		if all[i].ID == b.never {
			return confirms, broker.ErrMessage
		}
	}
	for i := range all {
		if confirms[i] = broker.Confirmed; all[i].ID == b.full {
			confirms[i] = broker.Nacked
			continue
		}
		b.taken = append(b.taken, all[i].ID)
	}
	return confirms, nil
}

// tellerOf is a teller that holds the outbox, with a page of three.
func tellerOf(s store.Store, b broker.Broker) (*teller, *noticePage, func(string) int) {
	var mu sync.Mutex
	counts := map[string]int{}
	world := still.New()
	t := newTeller(NoticesConfig{
		Store: s, Broker: b, Lease: time.Minute, Logger: hclog.NewNullLogger(),
		Count: func(result string, n int) {
			mu.Lock()
			defer mu.Unlock()
			counts[result] += n
		},
	}, world)
	t.epoch, t.record = 1, newToldRecord(t.cfg, world, store.NoticesHold{Epoch: 1}, world.Now())
	p := &noticePage{total: 3}
	for range p.total {
		id := messages.NewExecutionID()
		p.ids, p.messages = append(p.ids, id), append(p.messages, broker.Message{ID: id.String()})
		p.routes = append(p.routes, store.NoticeRoute{})
	}
	return t, p, func(result string) int {
		mu.Lock()
		defer mu.Unlock()
		return counts[result]
	}
}

// A store that cannot write says nothing of the messages: all of the page is told when it can.
func TestAStoreThatIsFullLosesNoNotice(t *testing.T) {
	t.Parallel()
	for name, publish := range map[string]func(*teller, context.Context, *noticePage) error{
		"together": (*teller).publish, "one after the other": (*teller).alone,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			teller, page, count := tellerOf(fullStore{}, slowBroker{})
			teller.record.renewed = teller.record.renewed.Add(-30 * time.Second) // a third of the lease has passed: a write is due
			require.ErrorIs(t, publish(teller, t.Context(), page), store.ErrFull)
			require.Zero(t, page.from, "nothing was passed over")
			require.Zero(t, count("gone"))
		})
	}
}

// A notice that the broker can never take and one that a full queue refuses hold up no other.
func TestAPageWithAnImpossibleAndARefusedNoticePasses(t *testing.T) {
	t.Parallel()
	b := &pickyBroker{}
	teller, page, count := tellerOf(fullStore{}, b)
	b.never, b.full = page.ids[0].String(), page.ids[1].String()
	require.NoError(t, teller.publish(t.Context(), page))
	require.Equal(t, []string{page.ids[2].String()}, b.taken)
	require.Equal(t, []messages.ExecutionID{page.ids[1]}, page.later, "it is told later")
	require.Equal(t, 1, count("gone"))
	require.Equal(t, 1, count("put_off"))
}
