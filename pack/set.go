package pack

import (
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Set is what was loaded: a value that is not changed once Load has returned it. Everything in it is sorted by name.
type Set struct {
	Packs   []Pack
	Pools   []Pool
	Actions []messages.Action

	schemas map[string]*checker // by action ref
}

// Pack is one loaded pack.
type Pack struct {
	Name    string
	Version string
	Root    string // the folder, absolute, without symlinks
	Digest  string // over the pack's files, in hex; changes with any of them
	Actions []string
}

// Pool is the workers of one runtime configuration on this node.
type Pool struct {
	Name    string // "pack.pool", or the runtime's name for its default pool
	Pack    string // who declares it; empty for a runtime's default pool
	Runtime messages.Runtime
	Root    string   // with a command: the folder in which Command is resolved
	Command []string // of runtimes whose pools have one: the program, as written; see runtime.Argv
	// Min and Max bound the number of workers on this node; equal where the number is fixed.
	Min, Max int
	Env      map[string]string // added to the allow-listed environment
	Secrets  map[string]Secret // variables whose values the node reads when a worker starts
	User     string            // who programs run as, as written; empty: the node's user
	As       *messages.User    // who that is on this node; nil: the node's user, or it was not looked up
	Umask    *uint32           // of programs; nil: the node's
	Limits   messages.Limits
	Recycle  Recycle
	Health   Health
	Init     time.Duration // how long hello may take; 0: the default
	// SnapshotEvery keeps a session's state after every so many of its executions; 0: only when its worker leaves.
	SnapshotEvery int
	Actions       []string // refs
	// Fingerprint changes whenever a worker that started under the old one must be replaced: with anything above
	// but Min and Max, and for runtimes that keep a process with the code and version of every pack it serves.
	Fingerprint string
}

// Recycle is when a worker is replaced although it is well. Zero fields mean never.
type Recycle struct {
	MaxAge        time.Duration
	MaxExecutions int
	MaxMemory     int64 // bytes, resident
}

// Health is how the pool's workers are probed. Zero fields mean the configured defaults.
type Health struct {
	Interval time.Duration
	Timeout  time.Duration
}

// Action returns the action of that ref. The pointer is into the set: it must not be written through.
func (s *Set) Action(ref string) (*messages.Action, bool) {
	i, ok := slices.BinarySearchFunc(s.Actions, ref, func(a messages.Action, ref string) int {
		return strings.Compare(a.Ref, ref)
	})
	if !ok {
		return nil, false
	}
	return &s.Actions[i], true
}

// Pool returns the pool of that name. The pointer is into the set: it must not be written through.
func (s *Set) Pool(name string) (*Pool, bool) {
	i, ok := slices.BinarySearchFunc(s.Pools, name, func(p Pool, name string) int { return strings.Compare(p.Name, name) })
	if !ok {
		return nil, false
	}
	return &s.Pools[i], true
}

// Pack returns the pack of that name. The pointer is into the set: it must not be written through.
func (s *Set) Pack(name string) (*Pack, bool) {
	i, ok := slices.BinarySearchFunc(s.Packs, name, func(p Pack, name string) int { return strings.Compare(p.Name, name) })
	if !ok {
		return nil, false
	}
	return &s.Packs[i], true
}
