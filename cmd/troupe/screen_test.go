package main

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/node"
)

// What a node says to try reaches it, whatever it listens on.
func TestTheCommandToTryNamesTheServer(t *testing.T) {
	t.Parallel()
	require.Equal(t, "troupe submit core.echo message=hi --wait", tryIt(schemePlain, "127.0.0.1:7070"))
	require.Equal(t, "troupe --server 127.0.0.1:7071 submit core.echo message=hi --wait", tryIt(schemePlain, "127.0.0.1:7071"))
	require.Equal(t, "troupe --server https://10.0.0.5:7070 submit core.echo message=hi --wait", tryIt(schemeTLS, "10.0.0.5:7070"))
}

// A node that cannot go on, or that stops, is not said to listen.
func TestNoWelcomeToANodeThatEnds(t *testing.T) {
	t.Parallel()
	n, err := node.NewKeeper(node.Config{Data: t.TempDir(), NoBuiltins: true})
	require.NoError(t, err)
	var out strings.Builder
	s, _ := newScreen(&out)
	ctx, end := context.WithCancel(t.Context())
	end()
	s.welcome(ctx, n, "a", schemePlain, true)
	require.Empty(t, out.String())
}
