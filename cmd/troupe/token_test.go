package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/config"
)

// A line that the command prints is one that a node takes, and the token is not in it.
func TestTokenNew(t *testing.T) {
	t.Parallel()
	r := call(t, "", nil, "token", "new", "--name", `ci "night"`, "--scope", "submit", "--scope", "read", "--expires", "90d", "-o", "json")
	require.Equal(t, 0, r.code, r.err)
	var made struct {
		Token, Hash, Line string
		Expires           time.Time
	}
	require.NoError(t, json.Unmarshal([]byte(r.out), &made))
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	require.NoError(t, os.WriteFile(path, []byte(made.Line+"\n"), 0o600))
	tokens, err := config.ReadTokens(path)
	require.NoError(t, err)
	require.Equal(t, []api.Token{{Name: `ci "night"`, Secret: made.Hash, Scopes: []api.Scope{"submit", "read"}, Expires: made.Expires}}, tokens)
	require.Equal(t, api.HashToken(made.Token), made.Hash)
	require.WithinDuration(t, time.Now().Add(90*24*time.Hour), made.Expires, time.Minute)
	require.NotContains(t, made.Line, made.Token)

	r = call(t, "", nil, "token", "new", "--name", "ops", "--scope", "admin")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.out, "troupe_")
	require.Contains(t, r.out, `- {name: "ops", scopes: [admin], token: "sha256:`)
	for want, args := range map[string][]string{
		"--name is missing": {"--scope", "read"}, "--scope is missing": {"--name", "a"}, `unknown scope "root"`: {"--name", "a", "--scope", "root"},
		"no colon": {"--name", "sql:a", "--scope", "read"}, "is over already": {"--name", "a", "--scope", "read", "--expires", "2001-01-31T00:00:00Z"},
		"such as 90d": {"--name", "a", "--scope", "read", "--expires", "soon"},
	} {
		r = call(t, "", nil, append([]string{"token", "new"}, args...)...)
		require.Equal(t, 2, r.code, args)
		require.Contains(t, r.err, want)
		require.Empty(t, r.out)
	}
}

func TestTokensFileProblems(t *testing.T) {
	t.Parallel()
	const good = `- {name: a, scopes: [read], token: 0123456789abcdef}`
	for _, c := range []struct {
		text string
		mode os.FileMode
		want string
	}{
		{"", 0o600, "holds no tokens"}, {"[]", 0o600, "holds no tokens"}, {"a: b", 0o600, "must be a list"}, {"- {", 0o600, "is not YAML"},
		{"- {name: a, scopes: [read], token: 0123456789abcdef, odd: 1}", 0o600, "line:1: tokens_file: an entry must have the keys"},
		{"- {name: a, scopes: [read], token_env: X}", 0o600, "token_env can stand below tokens alone"},
		{strings.Replace(good, "}", ", expires: soon}", 1), 0o600, "expires must be a time"},
		{strings.Replace(good, "read", "root", 1), 0o600, `unknown scope "root"`},
		{good + "\n---\n" + good, 0o600, "more than one YAML document"}, {good, 0o602, "chmod o-w"}, {good, 0o600, ""},
	} {
		path := filepath.Join(t.TempDir(), "tokens.yaml")
		require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
		require.NoError(t, os.Chmod(path, c.mode))
		_, err := config.ReadTokens(path)
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, path)
		require.NotContains(t, err.Error(), "0123456789abcdef")
	}
}
