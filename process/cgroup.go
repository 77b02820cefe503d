package process

import "fmt"

// Where a cgroup v2 is writable, every program gets a group of its own. The kernel starts the program inside it, so
// that neither a session, a cleared environment nor the death of its parents takes a descendant out of it:
//
//	the node's own group, or the delegated one above it
//	  └── troupe-INCARNATION      one for each boot of a node
//	        ├── 1.1               guardian 1, program 1
//	        └── 1.2
//
// Whatever of this the machine does not give is done by the means that need no group: process groups, the subreaper,
// marks in environments, and samples.

// groupFacts is what was found of cgroup v2 on this machine.
type groupFacts struct {
	writable bool // a group can be made, and a program started in it
	kill     bool // cgroup.kill; Linux 5.14
	memory   bool // programs' groups have memory.max
	pids     bool // programs' groups have pids.max
}

// means says which of a program's groups' powers are used; what is false is done without groups.
type means struct {
	group  bool // each program has a group, whose members are its descendants
	kill   bool // the kernel ends a group in one step
	memory bool // the kernel holds the memory limit; otherwise samples do
	tasks  bool // the kernel stops runaway forks between two samples of the number of processes
	events bool // the kernel says which program it killed for memory; otherwise its count for the machine does
}

// meansFor decides what each thing is done by.
func meansFor(f groupFacts) means {
	if !f.writable {
		return means{}
	}
	return means{group: true, kill: f.kill, memory: f.memory, tasks: f.pids, events: f.memory}
}

// bits and meansOf carry the means to the guardian.
func (m means) bits() (b uint64) {
	for i, on := range []bool{m.group, m.kill, m.memory, m.tasks, m.events} {
		if on {
			b |= 1 << i
		}
	}
	return b
}

func meansOf(bits uint64) means {
	has := func(i int) bool { return bits>>i&1 == 1 }
	return means{group: has(0), kill: has(1), memory: has(2), tasks: has(3), events: has(4)}
}

// Containment says, for a person, what keeps programs together and within their limits on this machine.
type Containment struct {
	Folder    string // where groups are made; empty: no groups
	Reason    string // why there are none, or why one has no controllers; empty: nothing is missing
	End       string // what finds every descendant of a program that is ended
	Memory    string // what holds limits.memory
	Processes string // what holds limits.processes
	Delegated []string
}

// describe puts the means into words.
func (m means) describe() Containment {
	c := Containment{
		End:       "process groups, the subreaper and marks in environments",
		Memory:    fmt.Sprintf("samples every %s", sampleTime),
		Processes: fmt.Sprintf("samples every %s", sampleTime),
	}
	if m.group {
		c.End = "the members of its cgroup"
	}
	if m.kill {
		c.End = "cgroup.kill"
	}
	if m.memory {
		c.Memory, c.Delegated = "memory.max", append(c.Delegated, "memory")
	}
	if m.tasks {
		c.Processes += " and pids.max"
		c.Delegated = append(c.Delegated, "pids")
	}
	return c
}
