package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// fileMax bounds a configuration file, in bytes.
const fileMax = 1 << 20

// Sources is what a configuration is read from.
type Sources struct {
	File    string              // path of the YAML file; empty: none
	Environ []string            // as os.Environ gives it
	Flags   map[string][]string // flags that were given, by name without dashes
}

// Loaded is a configuration that has passed every check, with its keys.
type Loaded struct {
	Config
	Keys []*Key
	// Warnings are what a person should look at: environment variables that look like keys and are none.
	Warnings []string
	// Exposed says that the file, or that of tokens, holds secrets that every user of the machine may read; empty: it does not.
	Exposed string

	server string // TROUPE_SERVER
}

// Problems is everything that is wrong with a configuration, one line each.
type Problems []string

func (p Problems) Error() string {
	if len(p) == 1 {
		return "configuration: " + p[0]
	}
	return fmt.Sprintf("configuration: %d problems:\n  - %s", len(p), strings.Join(p, "\n  - "))
}

// Load reads the sources over the defaults and checks the whole. Its error is Problems, with all of them.
func Load(s Sources) (*Loaded, error) {
	l := &Loaded{}
	l.Keys = keysOf(&l.Config)
	var problems Problems
	if s.File != "" {
		problems = append(problems, l.readFile(s.File)...)
	}
	env := environ(s.Environ)
	l.server = env[clientServer]
	problems = append(problems, l.readEnv(env)...)
	problems = append(problems, l.readFlags(s.Flags)...)
	problems = append(problems, l.fillIn(env)...)
	problems = append(problems, l.validate()...)
	if len(problems) > 0 {
		return nil, problems
	}
	if l.Exposed = l.exposed(s.File); l.Exposed == "" {
		l.Exposed = l.exposedTokens()
	}
	return l, nil
}

func (l *Loaded) readFile(path string) Problems {
	text, err := readBounded(path)
	if err != nil {
		return Problems{fmt.Sprintf("%s: %s; give --config a file that can be read", path, err)}
	}
	return (&fileReader{name: path, keys: l.byPath()}).read(text)
}

func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	var pathErr *fs.PathError
	switch {
	case errors.As(err, &pathErr):
		return nil, pathErr.Err
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("is no regular file")
	case info.Size() > fileMax:
		return nil, fmt.Errorf("is %d bytes; the limit is %d", info.Size(), fileMax)
	}
	return os.ReadFile(path)
}

func (l *Loaded) byPath() map[string]*Key {
	keys := make(map[string]*Key, len(l.Keys))
	for _, k := range l.Keys {
		keys[k.Path] = k
	}
	return keys
}

func environ(list []string) map[string]string {
	env := make(map[string]string, len(list))
	for _, entry := range list {
		if name, value, ok := strings.Cut(entry, "="); ok {
			env[name] = value
		}
	}
	return env
}

// others are variables of Troupe that are no keys: the clients' and the workers'. Kubernetes sets TROUPE_PORT… and
// TROUPE_SERVICE_… by itself for a service of that name.
var others = []string{"TROUPE_CONFIG", "TROUPE_SERVER", "TROUPE_TOKEN", "TROUPE_OUTPUT", "TROUPE_CA_FILE", "TROUPE_CERT_FILE", "TROUPE_KEY_FILE", "TROUPE_PROTOCOL", "TROUPE_POOL",
	"TROUPE_GENERATION", "TROUPE_INCARNATION", "TROUPE_PORT", "TROUPE_WORKER"}

var otherPrefixes = []string{"TROUPE_PORT_", "TROUPE_SERVICE_", "TROUPE_PARAM_"}

func (l *Loaded) readEnv(env map[string]string) (problems Problems) {
	known := map[string]bool{}
	for _, k := range l.Keys {
		known[k.Env] = true
		text, given := env[k.Env]
		if !given || text == "" {
			continue
		}
		if p := k.take(text, "env "+k.Env); p != "" {
			problems = append(problems, p)
		}
	}
	for name := range env {
		if strings.HasPrefix(name, envPrefix) && !known[name] && !slices.Contains(others, name) &&
			!slices.ContainsFunc(otherPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			l.Warnings = append(l.Warnings, fmt.Sprintf("environment variable %s names no key%s", name, l.closestEnv(name)))
		}
	}
	slices.Sort(l.Warnings)
	return problems
}

func (l *Loaded) closestEnv(name string) string {
	names := make([]string, len(l.Keys))
	for i, k := range l.Keys {
		names[i] = k.Env
	}
	return suggest(name, names)
}

// take gives the key a text from a source; the problem, if there is one, names the key, the source and what it wants.
func (k *Key) take(text, source string) string {
	if err := k.set(text); err != nil {
		shown := fmt.Sprintf(" %q", text)
		if k.secret != "" {
			shown = ""
		}
		return fmt.Sprintf("%s:%s is not valid: %s (%s)", k.Path, shown, err, source)
	}
	k.Source = source
	return ""
}

func (l *Loaded) readFlags(flags map[string][]string) (problems Problems) {
	for _, k := range l.Keys {
		values, given := flags[k.Flag]
		if k.Flag == "" || !given {
			continue
		}
		if p := k.take(strings.Join(values, ","), "flag --"+k.Flag); p != "" {
			problems = append(problems, p)
		}
	}
	return problems
}

// fillIn resolves what only the machine knows: names, folders, tokens kept in other variables.
func (l *Loaded) fillIn(env map[string]string) (problems Problems) {
	if l.Node.Name == "" {
		if l.Node.Name, _ = os.Hostname(); l.Node.Name == "" {
			l.Node.Name = "troupe"
		}
	}
	if rabbit := &l.Broker.RabbitMQ; l.byPath()["message_queue.rabbitmq.dead_letter.exchange"].Source == "default" {
		rabbit.DeadLetter.Exchange = rabbit.Prefix + ".dlx"
	}
	if l.Data == "" {
		l.Data = stateFolder(env)
	}
	if l.Data == "" {
		problems = append(problems, "data: empty, and neither XDG_STATE_HOME nor HOME is set; name a folder with --data")
	}
	l.fillTracing(env)
	for i := range l.Tokens {
		t := &l.Tokens[i]
		if t.TokenEnv == "" {
			continue
		}
		if t.Secret != "" {
			problems = append(problems, fmt.Sprintf("tokens: %s: both token and token_env are given; keep one", t.Name))
			continue
		}
		if t.Secret = env[t.TokenEnv]; t.Secret == "" {
			problems = append(problems, fmt.Sprintf("tokens: %s: the environment variable %s is empty; set it to the token", t.Name, t.TokenEnv))
		}
	}
	return problems
}

// stateFolder is where a program keeps its state by the XDG rules. They ask that a relative XDG_STATE_HOME be ignored.
func stateFolder(env map[string]string) string {
	if base := env["XDG_STATE_HOME"]; filepath.IsAbs(base) {
		return filepath.Join(base, "troupe")
	}
	if home := env["HOME"]; filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "troupe")
	}
	return ""
}
