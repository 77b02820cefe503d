package embedded_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/embedded"
)

// Only a node on Postgres can take part in a caller's transaction.
func TestSubmitTxNeedsPostgres(t *testing.T) {
	t.Parallel()
	n, err := embedded.New(embedded.Config{Data: t.TempDir()}, troupe.Action{Name: "demo.greet", Handler: greet})
	require.NoError(t, err)
	require.NoError(t, n.Start(t.Context()))
	defer func() { require.NoError(t, n.Stop(context.WithoutCancel(t.Context()))) }()
	_, err = n.SubmitTx(t.Context(), nil, troupe.Submission{Action: "demo.greet"})
	require.EqualError(t, err, "SubmitTx needs a node whose store is Postgres: give Config.Store a postgres:// address")
}
