package config

import (
	"reflect"
	"strings"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/runtime"
)

// Runtimes are those that a node of the command line has.
func Runtimes() runtime.Set { return runtime.All() }

// Workers is how many workers the default pool of each runtime has; 0 leaves a runtime its default.
type Workers map[messages.Runtime]*int

// Interpreters are the programs that run the code of each runtime that has one.
type Interpreters map[messages.Runtime]*string

// keyed is a field that holds several keys, by the runtimes.
type keyed interface{ keys(prefix string) []*Key }

func (w *Workers) keys(prefix string) []*Key {
	var keys []*Key
	*w = Workers{}
	for _, r := range Runtimes() {
		n := new(int)
		(*w)[r.Name] = n
		keys = append(keys, &Key{
			Path: prefix + string(r.Name), value: reflect.ValueOf(n).Elem(), span: &span{0, float64(r.WorkersMax)},
			Help: "Workers of the default " + string(r.Name) + " pool; 0: " + r.Workers.String() + ".",
		})
	}
	return keys
}

func (p *Interpreters) keys(prefix string) []*Key {
	var keys []*Key
	*p = Interpreters{}
	for _, r := range Runtimes() {
		if r.Interpreter.Default == "" {
			continue
		}
		program := new(r.Interpreter.Default)
		(*p)[r.Name] = program
		keys = append(keys, &Key{
			Path: prefix + string(r.Name), value: reflect.ValueOf(program).Elem(),
			Help: "The " + r.Interpreter.Title + " interpreter: a name on PATH or a path.",
		})
	}
	return keys
}

// Map is the numbers as a node takes them.
func (w Workers) Map() map[messages.Runtime]int { return values(w) }

// Map is the programs as a node takes them.
func (p Interpreters) Map() map[messages.Runtime]string { return values(p) }

func values[T any](of map[messages.Runtime]*T) map[messages.Runtime]T {
	plain := make(map[messages.Runtime]T, len(of))
	for name, value := range of {
		plain[name] = *value
	}
	return plain
}

// envOf is a key's environment variable.
func envOf(path string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}
