package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What a node says to try reaches it, whatever it listens on.
func TestTheCommandToTryNamesTheServer(t *testing.T) {
	t.Parallel()
	require.Equal(t, "troupe submit core.echo message=hi --wait", tryIt(schemePlain, "127.0.0.1:7070"))
	require.Equal(t, "troupe --server 127.0.0.1:7071 submit core.echo message=hi --wait", tryIt(schemePlain, "127.0.0.1:7071"))
	require.Equal(t, "troupe --server https://10.0.0.5:7070 submit core.echo message=hi --wait", tryIt(schemeTLS, "10.0.0.5:7070"))
}
