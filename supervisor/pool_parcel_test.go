package supervisor

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
)

// order places n executions on a slot.
func order(inc messages.Incarnation, slot messages.Slot, n int, timeout time.Duration) roster.Publish {
	o := roster.Publish{Worker: messages.WorkerKey{Incarnation: inc, Pool: "pool", Slot: slot}, Timeout: timeout}
	for range n {
		o.Placements = append(o.Placements, messages.Placement{Execution: messages.NewExecutionID(), Attempt: 1})
	}
	return o
}

// packer is a pool that can pack, of a runtime whose workers share a queue or not.
func packer(runtime messages.Runtime, slots int) *Pool {
	p := &Pool{cfg: PoolConfig{Name: "pool", Node: "node", Runtime: specOf(runtime), Incarnation: messages.NewIncarnation(), Workers: slots}}
	p.roster = roster.New(roster.Config{})
	for i := range slots {
		n := messages.Slot(i)
		s := &slot{number: n}
		if !p.shared() {
			s.queue = "queue" + strconv.Itoa(i)
		}
		p.slots = append(p.slots, s)
	}
	return p
}

func TestWorkersThatShareAQueueShareMessages(t *testing.T) {
	t.Parallel()
	p := packer("go", 3)
	inc := p.cfg.Incarnation
	parcels := p.pack([]roster.Publish{
		order(inc, 0, 60, 0), order(inc, 1, 30, 0), order(inc, 2, 20, 0), // 110: two messages
		order(inc, 0, 1, time.Second), // it expires sooner
	})
	require.Len(t, parcels, 3)
	require.Len(t, parcels[0].work, 2)
	require.Len(t, parcels[0].placements(), 90)
	require.Len(t, parcels[1].placements(), 20)
	require.Zero(t, parcels[1].expiration)
	require.Equal(t, time.Second, parcels[2].expiration)
	for i := range parcels {
		require.Equal(t, parcels[0].queue, parcels[i].queue)
		body, err := broker.EncodeWork(parcels[i].work)
		require.NoError(t, err)
		back, err := broker.DecodeWork(body)
		require.NoError(t, err)
		require.Equal(t, parcels[i].work, back)
	}
}

func TestWorkersWithQueuesOfTheirOwnGetMessagesOfTheirOwn(t *testing.T) {
	t.Parallel()
	p := packer("python", 2)
	inc := p.cfg.Incarnation
	parcels := p.pack([]roster.Publish{order(inc, 0, 2, 0), order(inc, 1, 1, 0), order(inc, 0, 3, 0)})
	require.Len(t, parcels, 2)
	require.NotEqual(t, parcels[0].queue, parcels[1].queue)
	require.Len(t, parcels[0].placements(), 5)
}
