package node

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The guardian and the workers run in folders of their own: what they open by the data folder must not depend on ours.
func TestDataFolderIsAbsolute(t *testing.T) {
	t.Parallel()
	n, err := New(Config{Data: "data"})
	require.NoError(t, err)
	want, err := filepath.Abs("data")
	require.NoError(t, err)
	require.Equal(t, want, n.cfg.Data)
	require.True(t, filepath.IsAbs(n.cfg.ledgerPath()))
}
