package store_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/store"
)

// No way to print a secret shows it, also within other values.
func TestASecretIsNotPrinted(t *testing.T) {
	t.Parallel()
	raw := bytes.Repeat([]byte("S"), store.SecretSize)
	key, err := store.NewSecretKey(raw)
	require.NoError(t, err)
	require.Equal(t, raw, key.Reveal())
	secret := store.ClusterSecret{ID: 7, Key: key, Current: true}
	hidden := struct {
		all []store.ClusterSecret
		one *store.ClusterSecret
		key store.SecretKey
	}{[]store.ClusterSecret{secret}, &secret, key}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%X", "%q", "%d", "%c"} {
		for _, value := range []any{key, &key, secret, &secret, hidden, &hidden, map[string]any{"key": key}} {
			text := fmt.Sprintf(verb, value)
			for _, form := range []string{"SSS", "535353", "83 83", "0x53, 0x53"} {
				require.NotContains(t, text, form, verb)
			}
		}
	}
	encoded, err := json.Marshal([]any{key, secret, hidden})
	require.NoError(t, err)
	require.NotContains(t, string(encoded), "SSS")
	require.NotContains(t, string(encoded), "U1NT", "base64")
	_, err = store.NewSecretKey(raw[1:])
	require.ErrorIs(t, err, store.ErrInvalid)
	require.NotContains(t, err.Error(), "SSS")
}
