package pack

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/runtime"
)

// secretsMax bounds the names under secrets.
const secretsMax = 100

// readAction reads one file of actions/.
func (l *loader) readAction(d *draftPack, file string) {
	s := &source{
		owner: d.owner + ": action " + clip(strings.TrimSuffix(file, ".yaml")),
		file:  filepath.Join(d.folder.shown, "actions", file), problems: d.problems,
	}
	node := s.read(d.root, path.Join("actions", file))
	if node == nil {
		return
	}
	f := s.fields(node, "")
	if f == nil {
		return
	}
	name := f.name("name")
	a := messages.Action{Pack: d.pack.Name, Version: d.pack.Version, Root: d.pack.Root}
	if name != "" {
		s.owner, a.Ref = d.owner+": action "+name, d.pack.Name+"."+name
	}
	a.Description = f.text("description", descriptionMax, true)
	spec := f.runtime(l.options.Runtimes)
	if spec != nil {
		a.Runtime = spec.Name
	}
	l.readRules(f, d, &a)
	pool := f.poolName()
	l.readCode(f, d, &a, spec)
	if node := f.get("parameters"); node != nil {
		if raw, schema := s.schema(node); schema != nil {
			a.Parameters, l.schemas[a.Ref] = raw, schema
			if spec != nil && spec.Lifetime == runtime.OneShot {
				l.warnOfNames(s, raw)
			}
		}
	}
	f.done()
	if name == "" || a.Runtime == "" {
		return
	}
	if other := d.files[name]; other != "" {
		f.fail(nil, "another file has an action of that name: %s", other)
		return
	}
	d.files[name] = s.file
	l.place(f, d, &a, spec, pool)
	l.actions = append(l.actions, a)
}

// warningsMax bounds the warnings of one Load.
const warningsMax = 100

// warnOfNames warns of parameters whose program has no variable for them, whatever their value is.
func (l *loader) warnOfNames(s *source, schema json.RawMessage) {
	var properties struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &properties) != nil {
		return
	}
	by := map[string]string{} // parameter, by its variable
	for _, name := range slices.Sorted(maps.Keys(properties.Properties)) {
		variable, ok := runtime.ParameterVariable(name)
		other, taken := by[variable]
		switch {
		case len(l.warnings) == warningsMax:
			return
		case !ok:
			l.warnings = append(l.warnings, fmt.Sprintf("%s: no variable can have the name of parameter %q: it is on stdin alone; name it with letters, digits and _ (%s)",
				s.owner, printable(clip(name)), s.file))
		case taken:
			l.warnings = append(l.warnings, fmt.Sprintf("%s: parameters %q and %q differ in case alone: the variable TROUPE_PARAM_%s has the first, the second is on stdin alone; rename one (%s)",
				s.owner, other, name, variable, s.file))
		default:
			by[variable] = name
		}
	}
}

// readRules reads the keys that all runtimes share.
func (l *loader) readRules(f *fields, d *draftPack, a *messages.Action) {
	a.Timeout = d.defaults.timeout
	if t := f.seconds("timeout_seconds"); t > 0 {
		a.Timeout = t
	}
	a.StallTimeout = f.duration("stall_timeout")
	a.QueueDeadline = f.duration("queue_deadline")
	a.MaxRetries = d.defaults.maxRetries
	if n, ok := f.integer("max_retries", 0, maxRetriesMax); ok {
		a.MaxRetries, a.RetriesConsented = n, n > 0
	}
	a.Idempotent = f.flag("idempotent")
	a.Silent = !f.flag("notify") && f.nodes["notify"] != nil
	a.Webhook = f.webhook()
	a.Affinity = messages.Affinity(f.choice("affinity", "hint", "strict", "strict_fail"))
	a.WaitForWorker = f.choice("on_no_worker", "fail", "wait") == "wait"
	a.Secrets = f.texts("secrets", secretsMax, nameMax*4, false)
	a.Retry, a.RetryRules = f.retry(d.defaults.retry, d.defaults.rules)
}

// readCode reads the action's code. spec is nil if the runtime is wrong; that problem is noted already.
func (l *loader) readCode(f *fields, d *draftPack, a *messages.Action, spec *runtime.Spec) {
	if spec == nil {
		f.known = append(f.known, "entrypoint", "command")
		return
	}
	command := func(r *runtime.Spec) bool { return r.Code == runtime.Command }
	entrypoint := func(r *runtime.Spec) bool { return r.Code != runtime.Command }
	switch spec.Code {
	case runtime.File:
		a.Entrypoint = f.fileEntrypoint(d.root, spec)
		f.forbid("is for "+l.runtimes(command)+" only: name the function by entrypoint", "command")
	case runtime.Handler:
		a.Entrypoint = f.handler(a.Ref, l.options.HasHandler)
		f.forbid("is for "+l.runtimes(command)+" only: name the handler by entrypoint", "command")
	case runtime.Command:
		a.Command = f.command(d.root, l.options.Script)
		if f.nodes["command"] == nil && (!spec.PoolCommand() || f.nodes["pool"] == nil) {
			f.fail(f.node, "command is missing: runtime %s needs one, like [bin/work, --flag]", a.Runtime)
		}
		f.forbid("is for "+l.runtimes(entrypoint)+" only: name the program by command", "entrypoint")
	}
}

// runtimes names the runtimes for which holds is true: "runtimes shell and process", "runtime process".
func (l *loader) runtimes(holds func(*runtime.Spec) bool) string {
	names := l.options.Runtimes.Names("and", holds)
	if strings.Contains(names, " ") {
		return "runtimes " + names
	}
	return "runtime " + names
}

// choice reads one of some words. It returns an empty text where the key is missing.
func (f *fields) choice(key string, words ...string) string {
	node := f.get(key)
	if node == nil {
		return ""
	}
	if node.Kind != yaml.ScalarNode || node.ShortTag() != "!!str" || !slices.Contains(words, node.Value) {
		f.wrong(node, key, strings.Join(words[:len(words)-1], ", ")+" or "+words[len(words)-1])
		return ""
	}
	return node.Value
}

// poolName reads the optional pool.
func (f *fields) poolName() string {
	if f.nodes["pool"] == nil {
		f.get("pool")
		return ""
	}
	return f.name("pool")
}

// place finds the action's pool. Without one it makes a default pool: the runtime's, or one of the action's own if a
// worker runs the action's program.
func (l *loader) place(f *fields, d *draftPack, a *messages.Action, spec *runtime.Spec, name string) {
	if name != "" {
		l.join(f, a, l.pools[d.pack.Name+"."+name], spec, name)
		return
	}
	if f.nodes["pool"] != nil {
		return // its name is wrong; noted already
	}
	if !spec.PoolCommand() {
		l.placeByRuntime(a)
		return
	}
	a.Pool = a.Ref
	if l.pools[a.Pool] != nil {
		f.fail(f.node, "the pack has a pool of the action's name: add pool: %s, or rename one of them", strings.TrimPrefix(a.Ref, a.Pack+"."))
		return
	}
	n := l.options.Workers[a.Runtime]
	l.pools[a.Pool] = &Pool{
		Name: a.Pool, Pack: a.Pack, Runtime: a.Runtime, Root: a.Root, Command: a.Command, Min: n, Max: n,
	}
}

// placeByRuntime adds the action to its runtime's default pool.
func (l *loader) placeByRuntime(a *messages.Action) {
	a.Pool = string(a.Runtime)
	if l.pools[a.Pool] == nil {
		n := l.options.Workers[a.Runtime]
		l.pools[a.Pool] = &Pool{Name: a.Pool, Runtime: a.Runtime, Min: n, Max: n}
	}
}

// join adds the action to a pool of its pack. All actions of a pool with a command run in one program.
func (l *loader) join(f *fields, a *messages.Action, p *Pool, spec *runtime.Spec, name string) {
	at := f.nodes["pool"]
	switch {
	case p == nil:
		f.fail(at, "the pack declares no pool %s: add it to pools in pack.yaml", name)
		return
	case p.Runtime == "":
		return // noted already, at the pool
	case p.Runtime != a.Runtime:
		f.fail(at, "pool %s is for runtime %s, the action's is %s", name, p.Runtime, a.Runtime)
		return
	}
	a.Pool = p.Name
	if !spec.PoolCommand() {
		return
	}
	switch {
	case a.Command == nil && p.Command == nil:
		if f.nodes["command"] == nil {
			f.fail(at, "neither the action nor the pool %s has a command, and no action before it", name)
		}
	case a.Command == nil:
		a.Command = p.Command
	case p.Command == nil:
		p.Command = a.Command
	case !slices.Equal(a.Command, p.Command):
		f.fail(f.nodes["command"], "pool %s runs another command, %q: actions of one %s pool share its program",
			name, clip(strings.Join(p.Command, " ")), p.Runtime)
	}
}
