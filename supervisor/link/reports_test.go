package link

import (
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/supervisor/part"
)

// An entry that no peer could read is left out, and holds up no other.
func TestAnEntryThatNobodyCouldReadIsLeftOut(t *testing.T) {
	t.Parallel()
	l := New(&part.Shared{Config: &part.Config{Logger: hclog.NewNullLogger()}}, Left{})
	l.outbox.gather(roster.Released{Placement: messages.Placement{Execution: messages.NewExecutionID()}})
	require.Empty(t, l.outbox.entries)
	l.outbox.gather(roster.Released{Placement: messages.Placement{Execution: messages.NewExecutionID(), Attempt: 1}})
	require.Len(t, l.outbox.entries, 1)
}
