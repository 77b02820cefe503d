package config

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages/secret"
)

// clientToken and clientServer are the variables of the token that the command line's verbs call a node with, and of the node's
// address.
const clientToken, clientServer = "TROUPE_TOKEN", "TROUPE_SERVER"

// SecretVariables are the environment variables of Troupe that hold a token or the address of a store or broker, and in the given
// environment the node's address too where it holds a password.
func SecretVariables(list []string) []string {
	return secretVariables(environ(list)[clientServer])
}

func secretVariables(server string) []string {
	names := []string{clientToken}
	if secret.Address(server) != server {
		names = append(names, clientServer)
	}
	for _, k := range keysOf(&Config{}) {
		if k.secret != "" {
			names = append(names, k.Env)
		}
	}
	return names
}

// TokenVariables are the environment variables that the configuration names as holding a token.
func (l *Loaded) TokenVariables() []string {
	var names []string
	for i := range l.Tokens {
		if name := l.Tokens[i].TokenEnv; name != "" {
			names = append(names, name)
		}
	}
	return names
}

// SecretArguments are the values of flags that hold a secret.
func (l *Loaded) SecretArguments() []string {
	var values []string
	for _, k := range l.Keys {
		if k.secret != "" && strings.HasPrefix(k.Source, "flag ") && k.Value() != k.value.String() {
			values = append(values, k.value.String())
		}
	}
	return values
}

// exposed judges the file's permissions where it holds a secret.
func (l *Loaded) exposed(file string) string {
	info, err := os.Stat(file)
	if file == "" || err != nil || info.Mode().Perm()&0o004 == 0 || !slices.ContainsFunc(l.Keys, l.holdsSecret) {
		return ""
	}
	return fmt.Sprintf("%s holds secrets and every user may read it (mode %04o): run `chmod o-rwx` on it", file, info.Mode().Perm())
}

// holdsSecret reports whether a key's secret stands in the file itself.
func (l *Loaded) holdsSecret(k *Key) bool {
	if k.secret == "" || !strings.HasPrefix(k.Source, "file ") {
		return false
	}
	if k.value.Type() == tokensType {
		return slices.ContainsFunc(l.Tokens, func(t Token) bool {
			return t.TokenEnv == "" && t.Secret != "" && !(&api.Token{Secret: t.Secret}).Hashed()
		})
	}
	return k.Value() != k.value.String()
}

// passed refuses to hand the node's own secrets to every worker.
func (c *checker) passed(l *Loaded) {
	hidden := slices.Concat(secretVariables(l.server), l.TokenVariables(), l.Webhooks.SecretVariables())
	for _, name := range l.Runtime.EnvPass {
		if slices.Contains(hidden, name) {
			c.bad("runtime.env_pass", "%s holds a secret of the node, which no worker gets; %s", name, instead(name))
		}
	}
}

// instead says how workers get what a variable that they do not get is for.
func instead(name string) string {
	switch name {
	case clientToken:
		return "give workers a token of their own in a variable whose name does not begin with TROUPE_, named here or set in the pool's `env`"
	case clientServer:
		return "give the address without a password"
	}
	return "give workers what they need in a variable of its own, named here or set in the pool's `env`"
}
