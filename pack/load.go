package pack

import (
	"cmp"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	system "runtime"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/runtime"
)

// Bounds on one Load.
const (
	packsMax   = 1000
	actionsMax = 1000 // of one pack
	filesMax   = 10_000
)

// Options holds the configuration's values for packs. Zero fields mean the defaults.
type Options struct {
	// MaxRetries holds for actions where neither the action nor its pack sets it. Default 0.
	MaxRetries int
	// Cores is the number of cores from which default numbers of workers are computed. Default: the machine's.
	Cores int
	// Workers is the number of workers, by runtime, of pools that set none. Default: the runtime's.
	Workers map[messages.Runtime]int
	// Runtimes are the runtimes that packs may name. Default: all.
	Runtimes runtime.Set
	// HasHandler reports whether the binary has a Go handler of that name. Nil: any name is valid.
	HasHandler func(name string) bool
	// Script says from the beginning of a command's file what is wrong with it as a script; empty: nothing. Nil: nobody looks.
	Script func(io.Reader) string
	// User looks up the user that a pool's programs run as. Its error says why this node cannot run them so. Nil: users
	// are not looked up.
	User func(text string) (messages.User, error)
	// Registered are actions of the program itself, without files: handlers, with at least a Ref. Empty fields get the
	// defaults of an action's file; the version is "0".
	Registered []messages.Action
}

func (o Options) withDefaults() Options {
	if o.Cores <= 0 {
		o.Cores = system.NumCPU()
	}
	if o.Runtimes == nil {
		o.Runtimes = runtime.All()
	}
	o.Workers = o.Runtimes.Workers(o.Cores, o.Workers)
	return o
}

// Load reads the packs in dirs. Each dir is a pack, or a folder of packs. A pack that is found twice is loaded once.
// The error is a *Problems with the problems of all packs; the set is nil then.
func Load(dirs []string, options Options) (*Set, error) {
	l := &loader{
		options: options.withDefaults(), problems: &Problems{},
		packs: map[string]*draftPack{}, pools: map[string]*Pool{}, schemas: map[string]*checker{},
	}
	for _, f := range l.discover(dirs) {
		l.loadPack(f)
	}
	for _, a := range l.options.Registered {
		l.register(a)
	}
	if err := l.problems.err(); err != nil {
		return nil, err
	}
	return l.assemble(), nil
}

// loader collects the loaded parts. Maps are by full name.
type loader struct {
	options  Options
	problems *Problems
	packs    map[string]*draftPack
	pools    map[string]*Pool
	actions  []messages.Action
	schemas  map[string]*checker
	warnings []string
}

// folder is one pack's folder: the path as given, and the real path.
type folder struct{ shown, real string }

// discover finds the folders of the packs, each once.
func (l *loader) discover(dirs []string) []folder {
	var found []folder
	seen := map[string]bool{}
	for _, dir := range dirs {
		for _, shown := range l.packsIn(dir) {
			real, err := realPath(shown)
			switch {
			case err != nil:
				l.problems.add("packs: %s: %v", clip(shown), fileError(err))
			case len(found) == packsMax:
				l.problems.add("packs: more than %d packs", packsMax)
				return found
			case !seen[real]:
				seen[real] = true
				found = append(found, folder{shown, real})
			}
		}
	}
	return found
}

func realPath(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(absolute)
}

// packsIn returns dir itself if it is a pack, or else those of its folders that are packs.
func (l *loader) packsIn(dir string) []string {
	if strings.ContainsRune(dir, 0) || dir == "" {
		l.problems.add("packs: %q is not a folder's name", clip(dir))
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		if os.IsNotExist(err) {
			l.problems.add("packs: %s: there is no such folder", clip(dir))
		} else {
			l.problems.add("packs: %s: %v", clip(dir), fileError(err))
		}
		return nil
	}
	if !info.IsDir() {
		l.problems.add("packs: %s is not a folder: name the folder that holds pack.yaml", clip(dir))
		return nil
	}
	if isPack(dir) {
		return []string{dir}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		l.problems.add("packs: %s: %v", clip(dir), fileError(err))
		return nil
	}
	var found []string
	for _, e := range entries {
		if inside := filepath.Join(dir, e.Name()); isPack(inside) {
			found = append(found, inside)
		}
	}
	if len(found) == 0 {
		l.problems.add("packs: %s: no pack.yaml in it or in a folder of it", clip(dir))
	}
	return found
}

func isPack(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, "pack.yaml"))
	return err == nil
}

// loadPack reads one pack.
func (l *loader) loadPack(f folder) {
	root, err := os.OpenRoot(f.real)
	if err != nil {
		l.problems.add("packs: %s: %v", clip(f.shown), fileError(err))
		return
	}
	defer root.Close() // read only
	d := l.readPack(root, f)
	if d == nil {
		return
	}
	if other := l.packs[d.pack.Name]; other != nil {
		d.source.fail(nil, "another pack has that name: %s", clip(filepath.Join(other.folder.shown, "pack.yaml")))
		return
	}
	l.packs[d.pack.Name] = d
	for _, name := range l.actionFiles(d) {
		l.readAction(d, name)
	}
	if d.pack.Digest, err = digest(root); err != nil {
		d.source.fail(nil, "%v", err)
	}
}

// actionFiles lists the files of the pack's actions, by name.
func (l *loader) actionFiles(d *draftPack) []string {
	entries, err := fs.ReadDir(d.root.FS(), "actions")
	if err != nil {
		d.source.fail(nil, "no actions: the folder actions: %v", fileError(err))
		return nil
	}
	var names []string
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasPrefix(name, "."):
		case filepath.Ext(name) == ".yaml":
			names = append(names, name)
		case filepath.Ext(name) == ".yml":
			d.source.fail(nil, "actions/%s is not read: name it .yaml", clip(name))
		}
	}
	if len(names) > actionsMax {
		d.source.fail(nil, "%d actions, at most %d are allowed", len(names), actionsMax)
		return nil
	}
	if len(names) == 0 {
		d.source.fail(nil, "no actions: add actions/<name>.yaml")
	}
	return names
}

// assemble builds the set when there is no problem. It leaves out pools without actions.
func (l *loader) assemble() *Set {
	s := &Set{Actions: l.actions, Warnings: l.warnings, schemas: l.schemas}
	slices.SortFunc(s.Actions, func(a, b messages.Action) int { return cmp.Compare(a.Ref, b.Ref) })
	for _, a := range s.Actions {
		p := l.pools[a.Pool]
		p.Actions = append(p.Actions, a.Ref)
		if string(a.Parameters) == `{"type":"object"}` {
			delete(s.schemas, a.Ref) // Validate allows these parameters without a schema
		}
		if d := l.packs[a.Pack]; d != nil { // nil for a registered action
			d.pack.Actions = append(d.pack.Actions, a.Ref)
		}
	}
	for _, d := range l.packs {
		s.Packs = append(s.Packs, d.pack)
	}
	slices.SortFunc(s.Packs, func(a, b Pack) int { return cmp.Compare(a.Name, b.Name) })
	for _, p := range l.pools {
		if len(p.Actions) > 0 {
			s.Pools = append(s.Pools, *p)
		}
	}
	slices.SortFunc(s.Pools, func(a, b Pool) int { return cmp.Compare(a.Name, b.Name) })
	for i := range s.Pools {
		s.Pools[i].Fingerprint = s.fingerprint(&s.Pools[i], l.options.Runtimes)
	}
	return s
}
