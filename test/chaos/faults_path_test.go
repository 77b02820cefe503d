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

// The faults of this file take nothing away. They hold up, or overload, what every execution passes.
var (
	rowLock    = fault{"rows locked by a stranger", lockRows}
	slowStore  = fault{"store slow beyond its statement timeout", slowDown}
	bigResults = fault{"results of 8 MiB in numbers", returnBig}
	bigOutage  = fault{"results of 8 MiB end while the store is away", returnBigInOutage}
	unexchange = fault{"exchanges deleted", deleteExchanges}
	powerCut   = fault{"node and guardian killed together", killWithGuardian}
)

func pathFaults() []fault {
	return []fault{rowLock, slowStore, bigResults, bigOutage, unexchange, powerCut}
}

// answerTime is how long an execution may take that what is going on does not concern.
const answerTime = 15 * time.Second

// goesOn runs executions through every node while something else is held up. They must end.
func (f *full) goesOn(name string) {
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

// lockTime is the longest that rows are held: many times what a statement may take. A reduced storm lets them go as soon as
// it has seen that all else goes on.
const lockTime = 30 * time.Second

// locker marks the statement that holds the rows.
const locker = "chaos_locker"

// lockRows holds rows of executions under way by a transaction of a program that is not Troupe. What they belong to waits; all
// else goes on.
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
	f.goesOn(name)
	rows, err := servers.Query(f.postgres, "SELECT count(*) "+held)
	require.NoError(f.t, err)
	require.Equal(f.t, "1", rows[0][0], "the rows were let go before all else had gone on")
	if !whole {
		_, err := servers.Query(f.postgres, "SELECT pg_terminate_backend(pid) "+held)
		require.NoError(f.t, err)
		require.Error(f.t, <-over, "its backend was ended")
		return
	}
	require.NoError(f.t, <-over)
}

// stall is longer than Postgres lets a node's statement take, 5 s.
const stall = 5500 * time.Millisecond

// slowDown stops processes that serve a node until what they do has taken too long, one after the other, as a disk does
// that now and then does not answer. What they hold stays held.
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
		time.Sleep(stall) // the time of the stall
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
}

// resultSize leaves room for what the result says of itself, below the limit of 8 MiB.
const resultSize = 8<<20 - 4096

// returnBig has many results of the largest size end together.
func returnBig(f *full, random *rand.Rand) {
	f.submitBig(random, 300*time.Millisecond)
	f.bigAreStored()
}

// returnBigInOutage has them end while nothing can be stored.
func returnBigInOutage(f *full, random *rand.Rand) {
	const length = 1500 * time.Millisecond
	f.submitBig(random, length)
	f.nodes[0].eventually(backTime, "large results are on their way", func(context.Context) bool {
		running, err := f.nodes[0].list("running&action=chaos.big")
		if left, leftErr := f.nodes[0].list(underWay + "&action=chaos.big"); leftErr == nil && len(left) == 0 {
			f.submitBig(random, length) // one node's workers were not there yet, and never four ran at once
		}
		return err == nil && len(running) >= 4
	})
	away := 5 * time.Second
	if whole {
		away = 15 * time.Second
	}
	require.NoError(f.t, f.ownPostgres.Kill())
	time.Sleep(away) // the time of the outage
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
	if whole { // five times as many
		patience *= 3
	}
	f.nodes[0].eventually(patience, "the large results are stored", func(context.Context) bool {
		left, err := f.nodes[0].list(underWay + "&action=chaos.big")
		return err == nil && len(left) == 0
	})
}

// deleteExchanges deletes the exchanges of the prefix, with all that is bound to them.
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
	require.NoError(f.t, f.bindLetters(), "the test's own copies of dead letters")
}

// killWithGuardian takes a node and its guardian at once, as the kernel might when memory runs out. Nothing of them may live on.
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
