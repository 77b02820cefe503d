package memory_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/brokertest"
	"github.com/troupe-run/troupe/broker/brokertest/faulty"
	"github.com/troupe-run/troupe/broker/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	brokertest.RunInBubbles(t, opener())
}

// TestConformanceUnderFaults runs the suite through a caller that handles the faults of a network.
func TestConformanceUnderFaults(t *testing.T) {
	t.Parallel()
	bench, open := faulty.NewBench(1), opener()
	brokertest.RunInBubbles(t, func(t *testing.T) broker.Broker { return bench.Wrap(open(t)) })
}

// opener opens connections to one broker for each test.
func opener() brokertest.Open {
	var servers sync.Map // by test
	return func(t *testing.T) broker.Broker {
		found, loaded := servers.LoadOrStore(t, sync.OnceValue(func() *memory.Broker { return memory.New(memory.Config{}) }))
		first := found.(func() *memory.Broker)()
		if !loaded {
			t.Cleanup(func() { require.NoError(t, first.Close()) })
		}
		b, err := first.Connect()
		require.NoError(t, err)
		return b
	}
}
