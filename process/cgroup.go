package process

import "fmt"

// Where a cgroup v2 is writable, every program gets a group of its own. The kernel starts the program inside it. A
// descendant stays in the group even if it starts a session, clears its environment or loses its parents:
//
//	the node's own group, or the delegated one above it
//	  └── troupe-INCARNATION      one for each boot of a node
//	        ├── 1.1               guardian 1, program 1
//	        └── 1.2
//
// Where the machine lacks a part of this, process groups, the subreaper, marks in environments, and samples do the
// work.

// groupFacts describes the cgroup v2 support of this machine.
type groupFacts struct {
	writable bool // a group can be made, and a program started in it
	kill     bool // cgroup.kill; Linux 5.14
	memory   bool // programs' groups have memory.max
	pids     bool // programs' groups have pids.max
}

// means says which features of cgroups are used. Work whose field is false is done without groups.
type means struct {
	group  bool // each program has a group, whose members are its descendants
	kill   bool // the kernel ends a group in one step
	memory bool // the kernel holds the memory limit; otherwise samples do
	tasks  bool // the kernel stops runaway forks between two samples of the number of processes
	events bool // the kernel says which program it killed for memory; otherwise its count for the machine does
}

// meansFor decides which features are used.
func meansFor(f groupFacts) means {
	if !f.writable {
		return means{}
	}
	return means{group: true, kill: f.kill, memory: f.memory, tasks: f.pids, events: f.memory}
}

// bits and meansOf encode and decode the means for the guardian's packet.
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

// Containment describes, for people, how programs are kept together and within their limits on this machine.
type Containment struct {
	Folder    string // where groups are made; empty: no groups
	Reason    string // why there are none, or why one has no controllers; empty: nothing is missing
	End       string // how every descendant of an ended program is found
	Memory    string // how limits.memory is enforced
	Processes string // how limits.processes is enforced
	Delegated []string
}

// describe describes the means for people.
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
