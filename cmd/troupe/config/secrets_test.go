package config

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSecretsAreNamed: main takes these out of the process's environment and command line once they are read.
func TestSecretsAreNamed(t *testing.T) {
	t.Parallel()
	names := SecretVariables([]string{"TROUPE_SERVER=http://127.0.0.1:7070"})
	require.NotContains(t, names, "TROUPE_SERVER", "an address without a password")
	require.NotContains(t, SecretVariables(nil), "TROUPE_SERVER")
	require.Contains(t, SecretVariables([]string{"TROUPE_SERVER=http://u:secret@h"}), "TROUPE_SERVER")
	for _, want := range []string{"TROUPE_TOKEN", "TROUPE_TOKENS", "TROUPE_STORE_URL", "TROUPE_MESSAGE_QUEUE_RABBITMQ_URL"} {
		require.Contains(t, names, want)
	}
	require.NotContains(t, names, "TROUPE_DATA")

	const store, broker = "postgres://u:secret@h/db", "amqp://h/"
	l, err := Load(Sources{
		Environ: []string{"HOME=/h", "OPS=0123456789abcdef"},
		File:    file(t, "tokens: [{name: ops, scopes: [admin], token_env: OPS}]\n"),
		Flags:   map[string][]string{"store": {store}, "broker": {broker}},
	})
	require.NoError(t, err)
	require.Equal(t, []string{"OPS"}, l.TokenVariables())
	require.Equal(t, []string{store}, l.SecretArguments(), "an address without a password may be seen")
}

func TestAFileOfSecretsIsNotForEverybody(t *testing.T) {
	t.Parallel()
	const tokens = "tokens: [{name: ops, scopes: [admin], token: 0123456789abcdef}]\n"
	for text, exposed := range map[string]bool{
		tokens: true,
		"store: {url: 'postgres://u:secret@h/db'}\nmessage_queue: {rabbitmq: {url: 'amqp://h/'}}\n": true,
		"store: {url: 'postgres://u@h/db'}\nmessage_queue: {rabbitmq: {url: 'amqp://h/'}}\n":        false,
		"tokens: [{name: ops, scopes: [admin], token_env: OPS}]\n":                                  false,
		"log: {level: info}\n": false,
	} {
		name := file(t, text)
		for mode, open := range map[os.FileMode]bool{0o644: true, 0o604: true, 0o640: false, 0o600: false} {
			require.NoError(t, os.Chmod(name, mode))
			l, err := Load(Sources{File: name, Environ: []string{"HOME=/h", "OPS=0123456789abcdef"}})
			require.NoError(t, err)
			require.Equal(t, exposed && open, l.Exposed != "", "%s %o: %s", text, mode, l.Exposed)
		}
	}
}

func TestSecretsAreNotPassedToWorkers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, server, instead string }{ // no instead: it is passed
		{"TROUPE_STORE_URL", "", "give workers what they need in a variable of its own, named here or set in the pool's `env`"},
		{"OPS", "", "give workers what they need in a variable of its own, named here or set in the pool's `env`"},
		{"TROUPE_TOKEN", "", "give workers a token of their own in a variable whose name does not begin with TROUPE_, named here or set in the pool's `env`"},
		{"TROUPE_SERVER", "http://u:secret@h:7070", "give the address without a password"},
		{"TROUPE_SERVER", "http://127.0.0.1:7070", ""},
		{"TROUPE_SERVER", "127.0.0.1:7070", ""},
		{"TROUPE_SERVER", "", ""},
	} {
		_, err := Load(Sources{
			Environ: []string{"HOME=/h", "OPS=0123456789abcdef", "TROUPE_SERVER=" + c.server},
			File:    file(t, "tokens: [{name: ops, scopes: [admin], token_env: OPS}]\nruntime: {env_pass: [PATH, "+c.name+"]}\n"),
		})
		if c.instead == "" {
			require.NoError(t, err, "%v", c)
			continue
		}
		require.ErrorContains(t, err, "runtime.env_pass: "+c.name+" holds a secret of the node, which no worker gets; "+c.instead)
		require.NotContains(t, err.Error(), "u:secret")
	}
}
