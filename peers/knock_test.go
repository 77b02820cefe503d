package peers

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// Only a refused connection says that nothing listens: an address that accepts, that is none, or whose name is not known says nothing.
func TestRefuses(t *testing.T) {
	t.Parallel()
	listening, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listening.Addr().String()
	require.False(t, refuses(t.Context(), address), "it is accepted")
	require.NoError(t, listening.Close())
	require.True(t, refuses(t.Context(), address))
	for _, none := range []string{"", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999", "no.such.host.invalid:7071", "[::1]:"} {
		require.False(t, refuses(t.Context(), none), none)
	}
}
