package node

import (
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// A row of the inbox at which the reading panics, here for want of a catalog, is refused like a wrong one.
func TestASubmissionThatCannotBeReadIsRefused(t *testing.T) {
	t.Parallel()
	in := &intake{base: &base{logger: hclog.NewNullLogger()}, submissions: &submissions{}}
	require.Panics(t, func() { _, _ = in.requested(&store.Submission{Action: "t.echo"}) })
	_, refusal := in.readSubmission(&store.Submission{ID: messages.NewExecutionID(), Action: "t.echo"})
	require.Equal(t, actors.Unreadable, refusal)
}
