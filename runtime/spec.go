package runtime

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/messages"
)

// Spec is one runtime.
type Spec struct {
	Name     messages.Runtime
	Lifetime Lifetime
	Code     Code
	// Example is an example of an entrypoint, for messages; for runtimes with Code File.
	Example string
	// SharedQueue means that the workers of a pool take from one queue, since all of them are alike. Otherwise each has
	// its own queue, unless the pool is very large.
	SharedQueue bool
	// Workers is the number of workers of a pool that sets none. WorkersMax bounds the default pool.
	Workers    Count
	WorkersMax int
	// Interpreter is the program that runs the code; the configuration may name another. Zero: no interpreter; the code
	// is a program.
	Interpreter Interpreter
	// Process is the name of a worker's program in messages; for runtimes with Lifetime LongLived.
	Process string
	// SDK says how programs find the runtime's SDK, if they find it by a variable.
	SDK SDK
	// BigNumbers says that the language's numbers are of 64 bits with a point: a pool may choose what becomes of others.
	BigNumbers bool
	// Start says how a program is started: a worker's program, or with OneShot an execution's. Nil with InNode.
	Start func(Launch) Program
}

// Lifetime is how long the program lives that runs an execution. Messages list runtimes in this order.
type Lifetime uint8

// The lifetimes.
const (
	OneShot   Lifetime = iota + 1 // one program for each execution
	LongLived                     // one program for each worker, which speaks the frame protocol
	InNode                        // no program: a function of the node's own binary
)

// Code is how an action names its code.
type Code uint8

// The forms of code.
const (
	File    Code = iota + 1 // an entrypoint: file:function, the file inside the pack
	Command                 // a command: a program and its arguments
	Handler                 // an entrypoint: the name of a handler of the binary
)

// Interpreter is the program that runs a runtime's code.
type Interpreter struct {
	Title   string // for people: Node.js
	Default string // a name in PATH
}

// SDK says where a runtime's programs find its SDK.
type SDK struct {
	Variable string                  // a list of folders, like PATH
	Path     func(dir string) string // the SDK's folder inside dir, to which SDKs are written
}

// Launch holds what Start needs to know.
type Launch struct {
	Interpreter string            // as configured
	SDK         string            // the folder that SDKs are written to
	Root        string            // the folder of the pack that names the code
	Command     []string          // as written in the pack; of runtimes with Code Command
	Entrypoint  string            // of the action; only with OneShot
	Env         map[string]string // the pool's own
	BigNumbers  string            // the pool's choice; empty: the SDK's default
}

// Program is how a program is started.
type Program struct {
	Argv []string
	Env  []string // in addition to the pool's
}

// Count is a number of workers: Fixed, or PerCore for each core of the machine.
type Count struct{ PerCore, Fixed int }

// On returns the number for a machine with so many cores.
func (c Count) On(cores int) int { return c.Fixed + c.PerCore*cores }

// String describes the number for people.
func (c Count) String() string {
	words := []string{"", "one", "two", "three"}
	switch {
	case c.PerCore == 0:
		return strconv.Itoa(c.Fixed)
	case c.PerCore < len(words):
		return words[c.PerCore] + " a core"
	}
	return strconv.Itoa(c.PerCore) + " a core"
}

// LongLived reports whether a worker keeps a program between executions.
func (s *Spec) LongLived() bool { return s.Lifetime == LongLived }

// InNode reports whether executions run inside the node, without a program.
func (s *Spec) InNode() bool { return s.Lifetime == InNode }

// PoolCommand reports whether the command belongs to the pool: a worker is one program, which all actions of the pool share.
func (s *Spec) PoolCommand() bool { return s.LongLived() && s.Code == Command }

// check names what is wrong with the Spec.
func (s *Spec) check() error {
	var errs []error
	need := func(holds bool, what string) {
		if !holds {
			errs = append(errs, fmt.Errorf("runtime %q: %s", s.Name, what))
		}
	}
	need(s.Name != "", "it has no name")
	need(s.Lifetime >= OneShot && s.Lifetime <= InNode, "it has no lifetime")
	need(s.Code >= File && s.Code <= Handler, "it does not say how an action names its code")
	need((s.Code == Handler) == s.InNode(), "handlers run in the node, and nothing else does")
	need((s.Start == nil) == s.InNode(), "it must say how a program is started, unless it runs in the node")
	need((s.Example != "") == (s.Code == File), "it needs an example of an entrypoint where that is a file, and there alone")
	need((s.Process != "") == s.LongLived(), "it must say what a worker's program is called, where there is one")
	need(s.Workers.On(1) > 0 && s.WorkersMax >= s.Workers.Fixed, "its number of workers must be positive and within its bound")
	return errors.Join(errs...)
}

// Argv resolves a command: a relative program with a slash is resolved against the pack's root, one without a slash is
// looked up in PATH at its start, and arguments do not change.
func Argv(root string, command []string) []string {
	argv := slices.Clone(command)
	if len(argv) > 0 && strings.Contains(argv[0], "/") && !filepath.IsAbs(argv[0]) {
		argv[0] = filepath.Join(root, argv[0])
	}
	return argv
}

// startCommand returns the command as it is written.
func startCommand(l Launch) Program { return Program{Argv: Argv(l.Root, l.Command)} }

// variableMax bounds a parameter's name that has a variable, in bytes.
const variableMax = 128

// ParameterVariable returns the name of a parameter in a variable of its program, TROUPE_PARAM_<NAME>. False: no variable can
// have the name.
func ParameterVariable(name string) (string, bool) {
	for i, r := range name {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return "", false
		}
	}
	return strings.ToUpper(name), name != "" && len(name) <= variableMax
}
