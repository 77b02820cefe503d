package memory_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/memory"
)

func TestDeclareSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	exchange := func(e broker.Exchange) broker.Topology { return broker.Topology{Exchanges: []broker.Exchange{e}} }
	queue := func(q broker.Queue) broker.Topology { return broker.Topology{Queues: []broker.Queue{q}} }
	binding := func(b broker.Binding) broker.Topology { return broker.Topology{Bindings: []broker.Binding{b}} }
	for _, c := range []struct {
		topology broker.Topology
		want     string
	}{
		{exchange(broker.Exchange{Kind: broker.Topic}), "declare exchange: the name is empty"},
		{exchange(broker.Exchange{Name: "x", Kind: "headers"}), `declare exchange x: unknown kind "headers": want fanout, topic or direct`},
		{exchange(broker.Exchange{Name: "old", Kind: broker.Topic}), "declare exchange old as topic: it is fanout: queue exists with other arguments"},
		{queue(broker.Queue{}), "declare queue: the name is empty"},
		{queue(broker.Queue{Name: long}), "declare queue " + long[:32] + "…: the name has 256 bytes, at most 255 are allowed"},
		{queue(broker.Queue{Name: "q", TTL: -time.Second}), "declare queue q: times must not be negative, got TTL -1s and expires 0s"},
		{queue(broker.Queue{Name: "q", MaxLength: -1}), "declare queue q: limits must not be negative, got length -1 and deliveries 0"},
		{queue(broker.Queue{Name: "old", TTL: time.Second}), "declare queue old: queue exists with other arguments"},
		{binding(broker.Binding{Exchange: "no", Queue: "old"}), "bind old to no: no such exchange: declare it first"},
		{binding(broker.Binding{Exchange: "old", Queue: "no"}), "bind no to old: no such queue"},
		{binding(broker.Binding{Exchange: "old", Queue: "old", Key: long}), "bind old to old: the key has 256 bytes, at most 255 are allowed"},
	} {
		b := memory.New(memory.Config{})
		require.NoError(t, b.Declare(t.Context(), broker.Topology{
			Exchanges: []broker.Exchange{{Name: "old", Kind: broker.Fanout}}, Queues: []broker.Queue{{Name: "old"}},
		}))
		require.EqualError(t, b.Declare(t.Context(), c.topology), c.want)
		require.NoError(t, b.Close())
	}
}
