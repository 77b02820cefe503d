package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/store/postgres"
	"github.com/troupe-run/troupe/test/servers"
)

// The secret is rotated in a schema that is up to date, and never shown.
func TestRotateSecret(t *testing.T) {
	t.Parallel()
	database := servers.Postgres(t)
	environ := []string{"TROUPE_DATA=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	r := call(t, "", environ, "cluster", "rotate-secret")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "give the cluster's Postgres with --store")
	environ = append(environ, "TROUPE_STORE_URL="+database)
	r = call(t, "", environ, "cluster", "rotate-secret")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "run troupe migrate")
	require.Equal(t, 0, call(t, "", environ, "migrate").code)

	said := ""
	for _, args := range [][]string{{}, {"--now"}, {"-o", "json"}, {"--now", "-o", "json"}} {
		r := call(t, "", environ, append([]string{"cluster", "rotate-secret"}, args...)...)
		require.Equal(t, 0, r.code, r.err)
		said += r.out + r.err
	}
	require.Contains(t, said, "number 1; the one before is accepted for 10m0s")
	require.Contains(t, said, "number 2; the one before is accepted no more")
	require.Regexp(t, `"overlap_seconds": ?600`, said)
	require.Regexp(t, `"overlap_seconds": ?0`, said)
	s, err := postgres.Open(t.Context(), postgres.Config{URL: database, Conns: 1})
	require.NoError(t, err)
	secrets, err := s.ClusterSecrets(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.Len(t, secrets, 1)
	require.Equal(t, int64(4), secrets[0].ID)
}
