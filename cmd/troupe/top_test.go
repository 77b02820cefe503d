package main

import (
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/cmd/troupe/client"
)

func TestTopShowsWhatTheNodeSays(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{
		"GET /api/v1/pools":      `{"pools":[{"name":"go","runtime":"go","workers":3,"ready":2,"busy":1}]}`,
		"GET /readyz":            `!503{"ready":false,"waits_for":["store"]}`,
		"GET /api/v1/executions": `{"executions":[` + execution(id1, "running", `,"worker":"n1/go/0","session":"alice"`) + `]}`,
	})
	c, err := client.New(s.URL, "")
	require.NoError(t, err)
	defer c.Close()
	m := topModel{ctx: t.Context(), client: c}
	next, again := m.Update(m.look())
	require.NotNil(t, again, "it looks again")
	text := plain(next.(topModel).View().Content)
	for _, want := range []string{"not ready: [store]", "go    go       ok", id1, "alice"} {
		require.Contains(t, text, want)
	}
	paused, _ := next.Update(tea.KeyPressMsg{Code: 'p', Text: "p"})
	require.Contains(t, paused.(topModel).View().Content, "paused")
	_, quit := paused.Update(tea.KeyPressMsg{Code: 'q', Text: "q"})
	require.IsType(t, tea.QuitMsg{}, quit())
	s.Close()
	require.Contains(t, m.look().render(), "no node answers", "and a node that is gone is shown as gone")
}
