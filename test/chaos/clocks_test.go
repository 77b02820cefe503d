package chaos_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/test/servers"
)

// TestClocksApart runs nodes beside a Postgres whose clock is 30 s behind theirs, sets that clock while they work, and kills and
// freezes nodes meanwhile.
func TestClocksApart(t *testing.T) {
	t.Parallel()
	clocksApart(t, storm{executions: 600, blows: 4, sessions: 16, callers: 24, stretch: 4})
}

func TestWholeClocksApart(t *testing.T) {
	wholeOnly(t)
	clocksApart(t, storm{executions: 10_000, blows: 24, sessions: 64, callers: 48, stretch: 8})
}

// clockFaults are in the order of a reduced storm: what is taken away after a step must be found by the new clock.
func clockFaults() []fault {
	set := fault{"server's clock set", setServerClock}
	return []fault{set, {"node killed", killOne}, set, frost}
}

// apart is how far the server's clock is from the nodes' at most.
const apart = 30 * time.Second

// setServerClock moves the clock of the store between the two ends, so that it goes forth and back by up to a minute.
func setServerClock(f *full, random *rand.Rand) {
	ahead := apart
	if random.IntN(2) == 0 {
		ahead = -apart
	}
	require.NoError(f.t, f.ownPostgres.SetClock(ahead+time.Duration(random.Int64N(int64(time.Second)))))
	f.goesOn("the clock's step to " + ahead.String() + " " + time.Now().String())
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
	f.nodes[0].verdict(f.history(c)) // how long rescues took is not told: their times are of two clocks
}
