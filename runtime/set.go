package runtime

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/messages"
)

// Set holds the runtimes of a node. It never changes.
type Set []Spec

// All lists the runtimes of Troupe.
func All() Set { return Set{python, node, process, shell, goRuntime} }

// Of returns a runtime's Spec. The pointer is into the set; do not write through it.
func (s Set) Of(name messages.Runtime) (*Spec, bool) {
	for i := range s {
		if s[i].Name == name {
			return &s[i], true
		}
	}
	return nil, false
}

// Handlers returns the runtime of registered handlers.
func (s Set) Handlers() *Spec {
	i := slices.IndexFunc(s, func(r Spec) bool { return r.Code == Handler })
	return &s[i] // Check makes sure that there is one
}

// Check returns the problem of the set, or nil.
func (s Set) Check() error {
	var errs []error
	handlers := 0
	for i := range s {
		errs = append(errs, s[i].check())
		if other, _ := s.Of(s[i].Name); other != &s[i] {
			errs = append(errs, fmt.Errorf("runtime %q: another one has the name", s[i].Name))
		}
		if s[i].Code == Handler {
			handlers++
		}
	}
	if handlers != 1 {
		errs = append(errs, fmt.Errorf("runtimes: one must run handlers, %d do", handlers))
	}
	return errors.Join(errs...)
}

// Workers returns, by runtime, how many workers its default pool has on a machine with so many cores. own holds
// configured numbers; those that are not positive count as not set.
func (s Set) Workers(cores int, own map[messages.Runtime]int) map[messages.Runtime]int {
	workers := make(map[messages.Runtime]int, len(s))
	for i := range s {
		workers[s[i].Name] = s[i].Workers.On(cores)
	}
	for name, n := range own {
		if n > 0 {
			workers[name] = n
		}
	}
	return workers
}

// Interpreters returns the program that runs the code, for each runtime that has one. own holds configured programs.
func (s Set) Interpreters(own map[messages.Runtime]string) map[messages.Runtime]string {
	programs := make(map[messages.Runtime]string, len(s))
	for i := range s {
		if programs[s[i].Name] = own[s[i].Name]; programs[s[i].Name] == "" {
			programs[s[i].Name] = s[i].Interpreter.Default
		}
	}
	return programs
}

// Names lists the names of the runtimes for which holds is true, as a sentence has them: "shell and process". One-shot
// runtimes come first, and the runtime without programs last.
func (s Set) Names(conjunction string, holds func(*Spec) bool) string {
	var names []string
	for _, lifetime := range []Lifetime{OneShot, LongLived, InNode} {
		for i := range s {
			if s[i].Lifetime == lifetime && holds(&s[i]) {
				names = append(names, string(s[i].Name))
			}
		}
	}
	return join(names, conjunction)
}

// String lists all names, in the set's order: "python, node, process, shell or go".
func (s Set) String() string {
	names := make([]string, len(s))
	for i := range s {
		names[i] = string(s[i].Name)
	}
	return join(names, "or")
}

func join(names []string, conjunction string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " " + conjunction + " " + names[last]
}
