package pack

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/runtime"
)

// Bounds on pack.yaml and on keys that actions and packs share.
const (
	versionMax     = 64   // bytes
	descriptionMax = 4096 // bytes
	poolsMax       = 100
	maxRetriesMax  = 1000 // a longer chain is a loop
)

var versionPattern = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+_-]*$`)

// draftPack is a pack while it is loaded.
type draftPack struct {
	*source
	pack     Pack
	folder   folder
	root     *os.Root
	defaults defaults
	files    map[string]string // the action's file, by the action's name
}

// defaults holds a pack's values for its actions.
type defaults struct {
	maxRetries int
	timeout    time.Duration
	retry      messages.RetryPolicy
	rules      messages.RetryRules
}

// readPack reads pack.yaml with the pools in it. It returns nil if the pack has no valid name.
func (l *loader) readPack(root *os.Root, f folder) *draftPack {
	s := &source{
		owner: "pack " + clip(filepath.Base(f.shown)), file: filepath.Join(f.shown, "pack.yaml"), problems: l.problems,
	}
	node := s.read(root, "pack.yaml")
	if node == nil {
		return nil
	}
	keys := s.fields(node, "")
	if keys == nil {
		return nil
	}
	d := &draftPack{source: s, folder: f, root: root, files: map[string]string{}, pack: Pack{Root: f.real}}
	if d.pack.Name = keys.name("name"); d.pack.Name != "" {
		s.owner = "pack " + d.pack.Name
	}
	d.pack.Version = keys.version()
	keys.text("description", descriptionMax, true)
	d.defaults = l.readDefaults(keys.sub("defaults"))
	pools := keys.list("pools", poolsMax)
	keys.done()
	if d.pack.Name == "" {
		return nil
	}
	for i, node := range pools {
		l.readPool(d, i, node)
	}
	return d
}

func (f *fields) version() string {
	node := f.get("version")
	if node == nil {
		f.fail(f.node, "version is missing")
		return ""
	}
	version := f.plain(node, "version", versionMax, false)
	if version != "" && !versionPattern.MatchString(version) {
		f.fail(node, "version must be of letters, digits and . + _ -, got %s", strconv.Quote(clip(version)))
		return ""
	}
	return version
}

func (l *loader) readDefaults(f *fields) defaults {
	d := defaults{maxRetries: l.options.MaxRetries}
	if f == nil {
		return d
	}
	if n, ok := f.integer("max_retries", 0, maxRetriesMax); ok {
		d.maxRetries = n
	}
	d.timeout = f.seconds("timeout_seconds")
	d.retry, d.rules = f.retry(messages.RetryPolicy{}, messages.RetryRules{})
	f.done()
	return d
}

// pools

const (
	workersMax = 10_000
	envMax     = 1000
)

var envPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// readPool reads one item of pools.
func (l *loader) readPool(d *draftPack, i int, node *yaml.Node) {
	s := &source{owner: d.owner + ": pools[" + strconv.Itoa(i) + "]", what: "a pool", file: d.file, problems: d.problems}
	f := s.fields(node, "")
	if f == nil {
		return
	}
	name := f.name("name")
	if name != "" {
		s.owner = d.owner + ": pool " + name
	}
	p := &Pool{Name: d.pack.Name + "." + name, Pack: d.pack.Name, Root: d.pack.Root}
	spec := f.runtime(l.options.Runtimes)
	if spec != nil {
		p.Runtime = spec.Name
	}
	if spec != nil && spec.PoolCommand() {
		p.Command = f.command(d.root, l.options.Script)
	} else {
		f.forbid("is for pools of "+l.runtimes((*runtime.Spec).PoolCommand)+" only", "command")
	}
	p.Min, p.Max = f.workers(l.options.Workers[p.Runtime])
	l.readSettings(f, p, spec)
	if spec != nil && spec.BigNumbers {
		p.BigNumbers = f.choice("big_numbers", "error", "bigint", "text")
	} else {
		f.forbid("is for pools of "+l.runtimes(func(s *runtime.Spec) bool { return s.BigNumbers })+" only", "big_numbers")
	}
	f.done()
	if name == "" {
		return
	}
	if l.pools[p.Name] != nil {
		f.fail(f.node, "another pool of the pack has that name")
		return
	}
	l.pools[p.Name] = p
}

// readSettings reads the keys of pools with processes. spec is nil if the runtime is wrong; that is noted already.
func (l *loader) readSettings(f *fields, p *Pool, spec *runtime.Spec) {
	if spec != nil && spec.InNode() {
		f.forbid("means nothing for runtime "+string(spec.Name)+", which runs inside the node", "env", "secrets", "user", "umask", "limits", "recycle", "health", "init_timeout", "snapshot_every")
		return
	}
	p.Env = f.env()
	p.Secrets = f.secrets(p.Env)
	l.readUser(f, p)
	if r := f.sub("limits"); r != nil {
		p.Limits.Memory = r.size("memory")
		p.Limits.CPUTime = r.duration("cpu_time")
		files, _ := r.integer("open_files", 16, 1<<20)
		p.Limits.OpenFiles = uint64(files)
		p.Limits.Processes, _ = r.integer("processes", 1, 1<<20)
		r.done()
	}
	if spec != nil && spec.Lifetime == runtime.OneShot {
		f.forbid("means nothing for runtime "+string(spec.Name)+", which starts a program for each execution", "recycle", "health", "init_timeout", "snapshot_every")
		return
	}
	if r := f.sub("recycle"); r != nil {
		p.Recycle.MaxAge = r.duration("max_age")
		p.Recycle.MaxExecutions, _ = r.integer("max_executions", 1, 1<<30)
		p.Recycle.MaxMemory = r.size("max_memory")
		r.done()
	}
	if r := f.sub("health"); r != nil {
		p.Health.Interval = r.duration("interval")
		p.Health.Timeout = r.duration("timeout")
		r.done()
	}
	p.Init = f.duration("init_timeout")
	p.SnapshotEvery, _ = f.integer("snapshot_every", 1, 1<<30)
}

// runtime reads the required runtime. If there is none, it notes that and returns nil.
func (f *fields) runtime(known runtime.Set) *runtime.Spec {
	node := f.get("runtime")
	if node == nil {
		f.fail(f.node, "runtime is missing: %s", known)
		return nil
	}
	text := f.plain(node, "runtime", nameMax, false)
	if text == "" {
		return nil
	}
	spec, ok := known.Of(messages.Runtime(text))
	if !ok {
		f.fail(node, "unknown runtime %q: want %s", clip(text), known)
	}
	return spec
}

// workers reads a number of workers, or a range.
func (f *fields) workers(fallback int) (low, high int) {
	node := f.nodes["workers"]
	if node == nil || node.Kind != yaml.MappingNode {
		n, ok := f.integer("workers", 1, workersMax)
		if !ok {
			n = fallback
		}
		return n, n
	}
	r := f.sub("workers")
	if r == nil {
		return fallback, fallback
	}
	low, okLow := r.integer("min", 1, workersMax)
	high, okHigh := r.integer("max", 1, workersMax)
	r.done()
	for _, key := range []string{"min", "max"} {
		if r.nodes[key] == nil {
			f.fail(r.node, "workers.%s is missing", key)
		}
	}
	if okLow && okHigh && low > high {
		f.fail(r.node, "workers.min is %d, which is more than workers.max, %d", low, high)
	}
	return low, high
}

// env reads environment variables. A value that YAML reads as a number or a boolean is taken as the text in the file.
func (f *fields) env() map[string]string {
	r := f.sub("env")
	if r == nil {
		return nil
	}
	if len(r.keys) > envMax {
		f.fail(r.node, "env has %d variables, at most %d are allowed", len(r.keys), envMax)
		return nil
	}
	env := make(map[string]string, len(r.keys))
	for _, key := range r.keys {
		value := r.nodes[key.Value]
		switch name := clip(key.Value); {
		case !envPattern.MatchString(key.Value):
			f.fail(key, "env: %q is not the name of a variable", name)
		case len(key.Value) > 7 && key.Value[:7] == "TROUPE_":
			f.fail(key, "env: %s: names that begin with TROUPE_ are set by the node", name)
		case value.Kind != yaml.ScalarNode || value.ShortTag() == "!!null":
			f.fail(value, "env.%s must be text, got %s", name, describe(value))
		case len(value.Value) > wordMax:
			f.fail(value, "env.%s has %d bytes, at most %d are allowed", name, len(value.Value), wordMax)
		case hasControl(value.Value):
			f.fail(value, "env.%s holds a control character", name)
		default:
			env[key.Value] = value.Value
		}
	}
	return env
}
