package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/test/servers"
)

// The faults of this file end nothing. They block or overload parts that every execution uses.
var (
	rowLock    = fault{"rows locked by another program", lockRows}
	slowStore  = fault{"store slow beyond its statement timeout", slowDown}
	bigResults = fault{"many results of 8 MiB", returnBig}
	bigOutage  = fault{"results of 8 MiB end while the store is away", returnBigInOutage}
	unexchange = fault{"exchanges deleted", deleteExchanges}
	handshakes = fault{"handshakes with RabbitMQ cut and stalled", cutHandshakes}
	powerCut   = fault{"node and guardian killed together", killWithGuardian}
)

func pathFaults() []fault {
	return []fault{rowLock, slowStore, bigResults, bigOutage, unexchange, handshakes, powerCut}
}

// handshakeAnswers are the server's answers until a connection to RabbitMQ is open: start, tune, open-ok.
const handshakeAnswers = 3

// cutHandshakes resets the nodes' connections to RabbitMQ, and cuts or stalls each new one at the same step of its handshake, for up to
// 4 s: a node waits 3 s for a handshake. No node may end.
func cutHandshakes(f *full, random *rand.Rand) {
	for _, step := range random.Perm(handshakeAnswers) {
		f.way.Break(step+1, random.IntN(2) == 0)
		f.way.Reset()
		moment(random, 4*time.Second)
		f.way.Heal()
		f.well()
	}
	for _, n := range f.nodes {
		require.NoError(f.t, n.client.Load().Get(f.t.Context(), "/healthz", nil))
	}
}

// answerTime is the longest time for an execution that the fault does not concern.
const answerTime = 15 * time.Second

// requireProgress runs an execution through every node while a fault blocks others. Each of them must end.
func (f *full) requireProgress(name string) {
	f.t.Helper()
	first := int(messages.PriorityMax)
	for i, n := range f.nodes {
		through := &caller{node: n, patience: f.calls.patience}
		w := &work{want: []messages.Status{messages.Completed, messages.Abandoned}}
		w.ActionRef, w.IdempotencyKey, w.Parameters = "chaos.go_work", fmt.Sprintf("beside-%s-%d", name, i), parameters(5*time.Millisecond)
		w.Priority = &first
		ctx, cancel := context.WithTimeout(f.t.Context(), answerTime)
		id, err := through.submit(ctx, mayExpire(w))
		require.NoError(f.t, err, "submit beside %s", name)
		_, err = through.wait(ctx, id)
		require.NoError(f.t, err, "wait beside %s", name)
		cancel()
		f.calls.adopt(through)
	}
}

// lockTime is the longest time for which the rows are locked: several times the statement timeout. A reduced storm unlocks them
// when other executions have ended.
const lockTime = 30 * time.Second

// locker is the application name of the connection that locks the rows.
const locker = "chaos_locker"

// lockRows locks rows of executions in progress by a transaction of another program. Those executions wait; all others continue.
func lockRows(f *full, random *rand.Rand) {
	name := fmt.Sprintf("lock%d", random.Uint32())
	f.runRepeatable(f.any(random), name)
	over := make(chan error, 1)
	go func() {
		over <- servers.Execute(f.postgres, fmt.Sprintf("SET application_name = '%s'; BEGIN; "+
			"SELECT id FROM execution WHERE status IN (1, 3, 4) ORDER BY seq LIMIT 8 FOR UPDATE; SELECT pg_sleep(%g); COMMIT", locker, lockTime.Seconds()))
	}()
	const held = "FROM pg_stat_activity WHERE application_name = '" + locker + "' AND wait_event = 'PgSleep'"
	f.nodes[0].eventually(backTime, "rows are locked", func(context.Context) bool {
		rows, err := servers.Query(f.postgres, "SELECT count(*) "+held)
		return err == nil && rows[0][0] == "1"
	})
	f.requireProgress(name)
	rows, err := servers.Query(f.postgres, "SELECT count(*) "+held)
	require.NoError(f.t, err)
	require.Equal(f.t, "1", rows[0][0], "the rows were unlocked before the other executions had ended")
	if !whole {
		_, err := servers.Query(f.postgres, "SELECT pg_terminate_backend(pid) "+held)
		require.NoError(f.t, err)
		require.Error(f.t, <-over, "its backend was ended")
		return
	}
	require.NoError(f.t, <-over)
}

// stall is longer than the timeout of a node's statement, 5 s.
const stall = 5500 * time.Millisecond

// slowDown stops processes of Postgres that serve a node, one after the other, until their statements have timed out. This is
// like a disk that sometimes does not answer. The stopped processes keep their locks.
func slowDown(f *full, random *rand.Rand) {
	for range 3 {
		rows, err := servers.Query(f.postgres, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
		if err != nil || len(rows) == 0 {
			continue
		}
		pid, err := strconv.Atoi(rows[random.IntN(len(rows))][0])
		require.NoError(f.t, err)
		if syscall.Kill(pid, syscall.SIGSTOP) != nil {
			continue // it has just ended
		}
		time.Sleep(stall)
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
}

// resultSize is below the limit of 8 MiB, with room for the other fields of the result.
const resultSize = 8<<20 - 4096

// returnBig makes many runs with the largest result end at the same time.
func returnBig(f *full, random *rand.Rand) {
	f.submitBig(random, 300*time.Millisecond)
	f.bigAreStored()
}

// returnBigInOutage makes them end while the store is away.
func returnBigInOutage(f *full, random *rand.Rand) {
	const length = 1500 * time.Millisecond
	f.submitBig(random, length)
	f.nodes[0].eventually(backTime, "large results are on their way", func(context.Context) bool {
		running, err := f.nodes[0].list("running&action=chaos.big")
		if left, leftErr := f.nodes[0].list(underWay + "&action=chaos.big"); leftErr == nil && len(left) == 0 {
			f.submitBig(random, length) // the workers of one node had not started yet, so fewer than four ran at the same time
		}
		return err == nil && len(running) >= 4
	})
	away := 5 * time.Second
	if whole {
		away = 15 * time.Second
	}
	require.NoError(f.t, f.ownPostgres.Kill())
	time.Sleep(away)
	require.NoError(f.t, f.ownPostgres.Start())
	f.well()
	f.bigAreStored()
}

func (f *full) submitBig(random *rand.Rand, length time.Duration) {
	f.t.Helper()
	count := 8
	if whole {
		count = 40
	}
	round := random.Uint32()
	first := int(messages.PriorityMax)
	for i := range count {
		through := &caller{node: f.nodes[i%len(f.nodes)], patience: f.calls.patience}
		w := &work{want: []messages.Status{messages.Completed, messages.Failed}, codes: codes(messages.CodePoisoned)}
		w.ActionRef, w.IdempotencyKey, w.Priority = "chaos.big", fmt.Sprintf("big-%d-%d", round, i), &first
		w.Parameters = json.RawMessage(fmt.Sprintf(`{"ms":%d,"bytes":%d}`, length.Milliseconds(), resultSize))
		_, err := through.submit(f.t.Context(), mayExpire(w))
		require.NoError(f.t, err)
		f.calls.adopt(through)
	}
}

func (f *full) bigAreStored() {
	f.t.Helper()
	patience := backTime
	if whole { // five times as many results
		patience *= 3
	}
	f.nodes[0].eventually(patience, "the large results are stored", func(context.Context) bool {
		left, err := f.nodes[0].list(underWay + "&action=chaos.big")
		return err == nil && len(left) == 0
	})
}

// deleteExchanges deletes the exchanges of the prefix and their bindings.
func deleteExchanges(f *full, _ *rand.Rand) {
	shared := f.settings.Shared()
	var names []string
	for _, x := range shared.Exchanges {
		names = append(names, x.Name)
		_, err := f.ownRabbit.Ctl("eval", fmt.Sprintf(`rabbit_exchange:delete(rabbit_misc:r(<<"/">>, exchange, <<"%s">>), false, <<"chaos">>).`, x.Name))
		require.NoError(f.t, err)
	}
	f.nodes[0].eventually(backTime, "the exchanges are declared again", func(context.Context) bool {
		out, err := f.ownRabbit.Ctl("-q", "list_exchanges", "--no-table-headers", "name")
		present := map[string]bool{}
		for _, name := range strings.Fields(out) {
			present[name] = true
		}
		for _, name := range names {
			if !present[name] {
				return false
			}
		}
		return err == nil
	})
	require.NoError(f.t, f.bindDeadLetters(), "the test's own copies of dead letters")
}

// killWithGuardian kills a node and its guardian at the same time, as the kernel may do when memory runs out. None of their
// processes may remain.
func killWithGuardian(f *full, random *rand.Rand) {
	n := f.any(random)
	guardian := n.guardian()
	f.take(n)
	_ = n.command.Process.Kill()
	_ = syscall.Kill(guardian.pid, syscall.SIGKILL)
	n.kill()
	n.gone()
	n.start()
}
