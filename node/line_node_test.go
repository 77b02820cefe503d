package node_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/submit"
)

// How many were before an execution is said of a time of its wait, and the same after all of them have ended.
func TestThePlaceInLineOfAPastTime(t *testing.T) {
	t.Parallel()
	for name, on := range stores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			block := newGate()
			h := handle(map[string]messages.Handler{"noop": noop, "block": block.run})
			k := lab(t, func(c *node.Config) { h(c); on(t, c) }, goPack(t, map[string]string{"noop": "", "block": ""}))
			web := api.New(api.Config{Backend: k.Backend})
			line := func(id messages.ExecutionID, at time.Time) string {
				v := answered[view.PastLine](t, web, "/api/v1/executions/"+id.String()+"/line?at="+url.QueryEscape(at.Format(time.RFC3339Nano)))
				require.Zero(t, v.Since, "all are looked at")
				if v.Line == nil {
					return "none"
				}
				return fmt.Sprintf("%d %t %s", v.Line.Ahead, v.Line.AtLeast, v.Line.Of)
			}
			// All workers are busy. A cordon would be the cause of each wait from the time on at which the journal has it.
			runs, other := k.submit("t.block", nil), k.submit("t.block", nil)
			k.becomes(runs, messages.Running)
			k.becomes(other, messages.Running)
			k.submit("t.noop", nil, at(time.Now().Add(time.Hour))) // it is not due
			a, b, c := k.submit("t.noop", nil), k.submit("t.noop", nil), k.submit("t.noop", nil, priority(9))
			low, d := k.submit("t.noop", nil, priority(1)), k.submit("t.noop", nil)
			first := k.get(d).RequestedAt
			_, err := k.Cancel(t.Context(), b, "test")
			require.NoError(t, err)
			second := k.get(b).FinishedAt
			strict := k.submit("t.noop", nil, func(r *submit.Request) { r.Session, r.Affinity = "s", string(messages.AffinityStrict) })
			behind := k.submit("t.noop", nil, func(r *submit.Request) { r.Session, r.Affinity = "s", string(messages.AffinityStrict) })
			last := k.submit("t.noop", nil)
			third := k.get(last).RequestedAt
			check := func(when string) {
				for what, want := range map[string][2]string{
					"the last":                    {line(d, first), "3 false pool"},
					"of the highest priority":     {line(c, first), "0 false pool"},
					"the first":                   {line(a, first), "1 false pool"},
					"of the lowest priority":      {line(low, first), "4 false pool"},
					"one was cancelled":           {line(d, second), "2 false pool"},
					"before its request":          {line(d, first.Add(-time.Microsecond)), "none"},
					"one of a session before it":  {line(last, third), "3 true pool"},
					"behind another of a session": {line(behind, third), "1 false session"},
					"the head of a session":       {line(strict, third), "3 false pool"},
					"a run":                       {line(runs, first), "none"},
				} {
					require.Equal(t, want[1], want[0], "%s, %s", what, when)
				}
			}
			check("while they wait")
			close(block.open)
			for _, id := range []messages.ExecutionID{a, c, low, d, strict, behind, last, runs, other} {
				k.await(id)
			}
			check("after they ended")
			require.Equal(t, "none", line(d, k.get(d).StartedAt))
			require.Equal(t, "none", line(d, k.get(d).FinishedAt.Add(time.Hour)))
		})
	}
}
