package alerts_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/alerts"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/placement"
	"github.com/troupe-run/troupe/rules/retry"
)

// wordsOf finds the statuses and codes that a runbook quotes, in a command too, and the grades that it speaks of.
func wordsOf(text string) []string {
	var words []string
	for _, quoted := range regexp.MustCompile("`[^`]+`").FindAllString(text, -1) {
		for _, word := range regexp.MustCompile(`[a-z_]+`).FindAllString(quoted, -1) {
			status := slices.ContainsFunc(messages.Statuses(), func(s messages.Status) bool { return s.String() == word })
			if status || messages.Code(word).Known() {
				words = append(words, word)
			}
		}
	}
	for _, grade := range health.Grades() {
		if regexp.MustCompile(`(?i)\b` + grade.String() + `\b`).MatchString(text) {
			words = append(words, grade.String())
		}
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// lost is what becomes of an execution whose worker dies while it runs.
func lost(e messages.Execution) retry.Rescued {
	e.Status = messages.Running
	return retry.Rescue(&e, "test", "")
}

// claims has, for each status, code and grade that a runbook names, the decision which makes it true.
var claims = map[string]func(t *testing.T){
	"heartbeat_late unhealthy": func(t *testing.T) {
		now := time.Now()
		sample := health.Sample{}.Beat(now, now.Add(-31*time.Second), 10*time.Second, 3)
		require.Equal(t, health.Unhealthy, health.Evaluate(health.Thresholds{Heartbeat: 30 * time.Second}, sample).Grade)
	},
	"no_active_workers healthy":  func(t *testing.T) { require.True(t, health.Healthy.Takes()) },
	"no_active_workers degraded": func(t *testing.T) { require.True(t, health.Degraded.Takes()) },
	"no_active_workers no_workers": func(t *testing.T) {
		now := time.Now()
		pick := func(r placement.Request, workers ...placement.Worker) placement.Verdict {
			table := placement.New(placement.Config{})
			table.SetSettled(true)
			for _, w := range workers {
				table.Upsert(w)
			}
			return table.Pick(&r, now)
		}
		none := pick(placement.Request{})
		require.Equal(t, placement.Fail, none.Kind)
		require.Equal(t, messages.CodeNoWorkers, none.Code)
		starts := placement.Worker{ID: "n/go/0", Capacity: 1, Tier: placement.Closed}
		require.Equal(t, placement.Wait, pick(placement.Request{}, starts).Kind)
		patient := placement.Request{WaitForWorker: true, WorkerDeadline: now.Add(time.Second)}
		require.Equal(t, placement.Wait, pick(patient).Kind)
		patient.WorkerDeadline = now
		require.Equal(t, messages.CodeNoWorkers, pick(patient).Code)
	},
	"unhealthy_workers unhealthy": func(t *testing.T) { require.False(t, health.Unhealthy.Takes()) },
	"workers_restarting failed": func(t *testing.T) {
		poisoned := lost(messages.Execution{CrashCount: retry.PoisonLimit - 1})
		require.Equal(t, messages.Failed, poisoned.Outcome.Status)
	},
	"workers_restarting abandoned": func(t *testing.T) {
		require.Equal(t, messages.Abandoned, lost(messages.Execution{}).Outcome.Status)
	},
	"high_execution_timeout_rate timed_out": func(t *testing.T) { require.True(t, messages.TimedOut.Terminal()) },
	"session_state_broken session_state_broken": func(t *testing.T) { // TestAStateThatWasSetAsideIsGivenToNobody has the decision
		require.True(t, messages.CodeSessionStateBroken.Reserved(), "only Troupe says so")
	},
	"stale_executions requested": waits(messages.Requested),
	"stale_executions scheduled": waits(messages.Scheduled),
	"dlq_buildup scheduled": func(t *testing.T) {
		for _, s := range messages.Statuses() {
			e := messages.Execution{Status: s, Attempt: 2}
			require.Equal(t, s == messages.Scheduled, retry.Expires(&e, 2), s)
			require.False(t, retry.Expires(&e, 1), "of an older placement")
		}
	},
	"dlq_buildup failed":        func(t *testing.T) { require.Equal(t, messages.Failed, retry.Expired().Status) },
	"dlq_buildup queue_timeout": func(t *testing.T) { require.Equal(t, messages.CodeQueueTimeout, retry.Expired().Error.Code) },
	"node_lost abandoned": func(t *testing.T) {
		require.Equal(t, messages.Abandoned, lost(messages.Execution{}).Outcome.Status)
		require.Equal(t, retry.PlaceAgain, lost(messages.Execution{Idempotent: true}).Action)
	},
}

// waits says that an execution of the status has not started.
func waits(s messages.Status) func(t *testing.T) {
	return func(t *testing.T) {
		require.False(t, s.Started())
		require.False(t, s.Terminal())
	}
}

// What a runbook says of a status, a code or a grade is what the decision does. A runbook that names another needs its claim here.
func TestRunbooksSayWhatIsDecided(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, r := range alerts.Rules() {
		for _, word := range wordsOf(strings.Join([]string{r.Summary, r.Means, r.Do}, " ")) {
			claim := r.Name + " " + word
			used[claim] = true
			t.Run(claim, func(t *testing.T) {
				t.Parallel()
				require.Contains(t, claims, claim, "which decision makes this true?")
				claims[claim](t)
			})
		}
	}
	for claim := range claims {
		require.True(t, used[claim], "no runbook says it: %s", claim)
	}
}
