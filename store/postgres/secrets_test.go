package postgres_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

// Nodes that start at the same time agree on one secret, and it stays.
func TestTheClustersSecretIsMadeOnce(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	s := d.open(t, postgres.Config{Schema: "secrets"})
	const nodes = 8
	got := make([][]store.ClusterSecret, nodes)
	var group sync.WaitGroup
	for i := range nodes {
		group.Go(func() {
			all, err := s.ClusterSecrets(t.Context())
			if err != nil {
				t.Error(err)
			}
			got[i] = all
		})
	}
	group.Wait()
	for _, all := range got {
		require.Len(t, all, 1)
		require.True(t, all[0].Current)
		require.Equal(t, got[0][0].Key.Reveal(), all[0].Key.Reveal())
	}
	require.Len(t, got[0][0].Key.Reveal(), store.SecretSize)
	require.NotEqual(t, make([]byte, store.SecretSize), got[0][0].Key.Reveal())
}

// After a rotation nodes prove with the new secret, and the previous one is accepted for the overlap and no longer.
func TestTheClustersSecretIsRotated(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	s := d.open(t, postgres.Config{Schema: "rotated"})
	first, err := s.ClusterSecrets(t.Context())
	require.NoError(t, err)
	id, err := s.RotateClusterSecret(t.Context(), time.Hour)
	require.NoError(t, err)
	all, err := s.ClusterSecrets(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, id, all[0].ID)
	require.True(t, all[0].Current)
	require.NotEqual(t, first[0].Key.Reveal(), all[0].Key.Reveal())
	require.NotEmpty(t, all[0].By, "the role that rotated it")
	require.False(t, all[1].Current)
	require.Equal(t, first[0].Key.Reveal(), all[1].Key.Reveal())
	require.Greater(t, all[1].Left, 59*time.Minute)
	require.LessOrEqual(t, all[1].Left, time.Hour)

	id, err = s.RotateClusterSecret(t.Context(), 0)
	require.NoError(t, err)
	all, err = s.ClusterSecrets(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1, "without an overlap no other is accepted, however long it had been allowed before")
	require.Equal(t, id, all[0].ID)
}

// Rotations at the same time leave one current secret, and every secret that was current meanwhile is accepted.
func TestRotationsFollowEachOther(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	s := d.open(t, postgres.Config{Schema: "rotations"})
	const rotations = 6
	var group sync.WaitGroup
	for range rotations {
		group.Go(func() {
			if _, err := s.RotateClusterSecret(t.Context(), time.Hour); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	all, err := s.ClusterSecrets(t.Context())
	require.NoError(t, err)
	require.Len(t, all, rotations)
	for i, secret := range all {
		require.Equal(t, i == 0, secret.Current)
	}
}
