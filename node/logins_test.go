package node

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/store"
)

// withSecrets is a store that nodes share, with its secrets.
type withSecrets struct {
	store.Store
	list []store.ClusterSecret
	err  error
}

func (s *withSecrets) ClusterSecrets(context.Context) ([]store.ClusterSecret, error) {
	return s.list, s.err
}

func (s *withSecrets) RotateClusterSecret(context.Context, time.Duration) (int64, error) {
	return 0, s.err
}

func TestTheKeysOfLoginsAreThoseOfTheStore(t *testing.T) {
	t.Parallel()
	secret := func(text string) store.ClusterSecret {
		key, err := store.NewSecretKey([]byte(text + "0123456789abcdef0123456789abcdef")[:store.SecretSize])
		require.NoError(t, err)
		return store.ClusterSecret{Key: key}
	}
	opened := (*withSecrets)(nil)
	l := &logins{base: newBase(Config{StoreURL: "postgres://x"}.withDefaults()), adapter: func() store.Store {
		if opened == nil {
			return nil
		}
		return opened
	}}
	require.Empty(t, l.current(t.Context()), "the store is not open")
	opened = &withSecrets{list: []store.ClusterSecret{secret("a"), secret("b")}}
	keys := l.current(t.Context())
	require.Len(t, keys, 2)
	opened.err = store.ErrUnavailable
	l.read = l.read.Add(-2 * loginKeysFor)
	require.Equal(t, keys, l.current(t.Context()), "those of before hold")
	opened.err, opened.list = nil, opened.list[1:]
	require.Equal(t, keys, l.current(t.Context()), "they are not read at every call")
	l.read = l.read.Add(-2 * loginKeysFor)
	require.Equal(t, keys[1:], l.current(t.Context()))
}

func TestTheKeyOfANodeAloneIsAFile(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	first := &logins{base: newBase(Config{Data: data}.withDefaults())}
	keys := first.current(t.Context())
	require.Len(t, keys, 1)
	require.Len(t, keys[0], store.SecretSize)
	next := &logins{base: newBase(Config{Data: data}.withDefaults())}
	require.Equal(t, keys, next.current(t.Context()), "a restart ends no login")
	info, err := os.Stat(filepath.Join(data, "console.key"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, os.WriteFile(filepath.Join(data, "console.key"), []byte("short"), 0o600))
	require.Empty(t, (&logins{base: newBase(Config{Data: data}.withDefaults())}).current(t.Context()))
}
