package pack

import (
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/troupe-run/troupe/rules/mask"
)

// SecretFileSuffix is the suffix of the variable that has the path of a secret's file.
const SecretFileSuffix = "_FILE"

// Secret is the source of a value that a pool's workers get as a variable: a file, or a variable of the node. It is
// read when a worker starts. The value is not part of the pack.
type Secret struct {
	// AsFile writes the value to a file of the worker, and passes the file's path in a variable with SecretFileSuffix.
	AsFile bool   `json:",omitempty"`
	File   string `json:",omitempty"` // an absolute path on the node
	Env    string `json:",omitempty"` // a variable of the node's environment
}

// secrets reads the variables that workers get from the node: secrets: {API_KEY: {file: /run/secrets/key}, TOKEN: {env: NODE_TOKEN}}.
func (f *fields) secrets(env map[string]string) map[string]Secret {
	r := f.sub("secrets")
	if r == nil {
		return nil
	}
	if len(r.keys) > mask.ValuesMax {
		f.fail(r.node, "secrets has %d values, at most %d are allowed", len(r.keys), mask.ValuesMax)
		return nil
	}
	secrets := make(map[string]Secret, len(r.keys))
	for _, key := range r.keys {
		name := clip(key.Value)
		_, also := env[key.Value]
		switch {
		case !envPattern.MatchString(key.Value):
			f.fail(key, "secrets: %q is not the name of a variable", name)
		case strings.HasPrefix(key.Value, "TROUPE_"):
			f.fail(key, "secrets: %s: names that begin with TROUPE_ are set by the node", name)
		case also:
			f.fail(key, "secrets: %s stands in env too: leave it out there", name)
		case r.nodes[key.Value].Kind != yaml.MappingNode:
			f.fail(r.nodes[key.Value], "secrets.%s must say where its value is, {file: /path} or {env: NAME}, and not the value itself", name)
		default:
			if s, ok := f.secret(key.Value, r.nodes[key.Value]); ok {
				secrets[key.Value] = s
			}
		}
	}
	for _, key := range r.keys {
		variable := key.Value + SecretFileSuffix
		_, inEnv := env[variable]
		if taken := inEnv || r.nodes[variable] != nil; taken && secrets[key.Value].AsFile {
			f.fail(key, "secrets: %s is given as a file, whose path is in %s: that name is taken", clip(key.Value), clip(variable))
		}
	}
	return secrets
}

// secret reads one item of secrets.
func (f *fields) secret(name string, node *yaml.Node) (s Secret, ok bool) {
	path := "secrets." + clip(name) + "."
	r := f.fields(node, path)
	s.File, s.Env = r.text("file", wordMax, false), r.text("env", wordMax, false)
	as := r.text("as", wordMax, false)
	s.AsFile = as == "file"
	r.done()
	switch {
	case r.nodes["as"] != nil && as != "file" && as != "env":
		f.fail(node, "%sas must be env or file, got %q", path, clip(as))
	case (r.nodes["file"] == nil) == (r.nodes["env"] == nil):
		f.fail(node, "secrets.%s must have either file or env", clip(name))
	case r.nodes["file"] != nil && !filepath.IsAbs(s.File):
		f.fail(node, "%sfile must be an absolute path on the node, got %q", path, clip(s.File))
	case r.nodes["env"] != nil && !envPattern.MatchString(s.Env):
		f.fail(node, "%senv: %q is not the name of a variable", path, clip(s.Env))
	default:
		return s, true
	}
	return s, false
}
