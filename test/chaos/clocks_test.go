package chaos_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/test/servers"
)

// TestClocksApart runs nodes beside a Postgres whose clock is 30 s behind theirs. It changes that clock while the nodes work, and
// kills and freezes nodes.
func TestClocksApart(t *testing.T) {
	t.Parallel()
	clocksApart(t, storm{executions: 600, injections: 4, sessions: 16, callers: 24, stretch: 4})
}

func TestWholeClocksApart(t *testing.T) {
	wholeOnly(t)
	clocksApart(t, storm{executions: 10_000, injections: 24, sessions: 64, callers: 48, stretch: 8})
}

// clockFaults begin with the changes of the clock, in this order also in a reduced storm: the ends of nodes that follow must be
// detected by the changed clock.
func clockFaults() []fault {
	set := fault{"server's clock set", setServerClock}
	return []fault{set, {"node killed", killOne}, set, freeze}
}

// apart is the largest difference between the server's clock and the nodes' clocks.
const apart = 30 * time.Second

// setServerClock moves the clock of the store between its two extremes, by up to a minute forward or back.
func setServerClock(f *full, random *rand.Rand) {
	ahead := apart
	if random.IntN(2) == 0 {
		ahead = -apart
	}
	require.NoError(f.t, f.ownPostgres.SetClock(ahead+time.Duration(random.Int64N(int64(time.Second)))))
	f.requireProgress("the clock's step to " + ahead.String() + " " + time.Now().String())
}

func clocksApart(t *testing.T, s storm) {
	paths, err := built()
	require.NoError(t, err)
	f := &full{t: t}
	f.serve(servers.PostgresOptions{Clock: true}, servers.RabbitMQOptions{})
	require.NoError(t, f.ownPostgres.SetClock(-apart))
	f.prepare(f.ownPostgres.URL, f.ownRabbit.URL, "chaos", []string{"TROUPE_EXECUTOR_CLAIM_TIMEOUT=3", "TROUPE_MESSAGE_QUEUE_RABBITMQ_WORKER_QUEUE_TTL_MS=4000"})
	f.collect()
	f.join("a", paths.troupe, "pack")
	f.join("b", paths.troupe, "pack")
	f.start()
	c := f.caller()
	ctx, cancel := context.WithTimeout(t.Context(), s.patience())
	defer cancel()
	f.ended(f.through(ctx, s, clockFaults(), c))
	f.nodes[0].settled(backTime)
	f.nodes[0].verdict(f.history(c)) // it does not report how long rescues took, because their times are from two clocks
}
