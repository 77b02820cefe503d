package pack

import (
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Set is the result of a Load. It never changes. Everything in it is sorted by name.
type Set struct {
	Packs   []Pack
	Pools   []Pool
	Actions []messages.Action
	// Warnings are of what is served as it is and may not be meant so, by action.
	Warnings []string

	schemas map[string]*checker // by action ref
}

// Pack is one loaded pack.
type Pack struct {
	Name    string
	Version string
	Root    string // the folder, absolute, without symlinks
	Digest  string // of the pack's files, in hex
	Actions []string
}

// Pool is a pool on this node: its workers share runtime and configuration.
type Pool struct {
	Name    string // "pack.pool", or the runtime's name for its default pool
	Pack    string // the pack that declares it; empty for a runtime's default pool
	Runtime messages.Runtime
	Root    string   // with a command: the folder against which Command is resolved
	Command []string // the program as written, for runtimes whose pools have one; see runtime.Argv
	// Min and Max bound the number of workers on this node. They are equal where the number is fixed.
	Min, Max int
	Env      map[string]string // added to the allow-listed environment
	Secrets  map[string]Secret // variables whose values the node reads when a worker starts
	User     string            // the user that programs run as, as written; empty: the node's user
	As       *messages.User    // the same user as found on this node; nil: the node's user, or not looked up
	Umask    *uint32           // of programs; nil: the node's
	Limits   messages.Limits
	Recycle  Recycle
	Health   Health
	Init     time.Duration // the bound on hello; 0: the default
	// SnapshotEvery is after how many executions of a session its state is saved; 0: only when its worker leaves.
	SnapshotEvery int
	// BigNumbers is how parameters have the numbers that the runtime's language cannot hold: error, bigint or text; empty: error.
	BigNumbers string
	Actions    []string // refs
	// Fingerprint changes whenever running workers must be replaced: with any field above but Min and Max. For runtimes
	// that keep a process, it also changes with the code and version of every pack that the pool serves.
	Fingerprint string
}

// Recycle says when a healthy worker is replaced. Zero fields mean never.
type Recycle struct {
	MaxAge        time.Duration
	MaxExecutions int
	MaxMemory     int64 // bytes, resident
}

// Health says how the pool's workers are probed. Zero fields mean the configured defaults.
type Health struct {
	Interval time.Duration
	Timeout  time.Duration
}

// Action returns the action of that ref. The pointer is into the set; do not write through it.
func (s *Set) Action(ref string) (*messages.Action, bool) {
	i, ok := slices.BinarySearchFunc(s.Actions, ref, func(a messages.Action, ref string) int {
		return strings.Compare(a.Ref, ref)
	})
	if !ok {
		return nil, false
	}
	return &s.Actions[i], true
}

// Pool returns the pool of that name. The pointer is into the set; do not write through it.
func (s *Set) Pool(name string) (*Pool, bool) {
	i, ok := slices.BinarySearchFunc(s.Pools, name, func(p Pool, name string) int { return strings.Compare(p.Name, name) })
	if !ok {
		return nil, false
	}
	return &s.Pools[i], true
}

// Pack returns the pack of that name. The pointer is into the set; do not write through it.
func (s *Set) Pack(name string) (*Pack, bool) {
	i, ok := slices.BinarySearchFunc(s.Packs, name, func(p Pack, name string) int { return strings.Compare(p.Name, name) })
	if !ok {
		return nil, false
	}
	return &s.Packs[i], true
}
