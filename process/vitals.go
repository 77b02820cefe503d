package process

import (
	"fmt"
	"path/filepath"
	"syscall"
	"time"
)

// sampleTime is how often limits on memory and processes are checked.
const sampleTime = 500 * time.Millisecond

// oomWatch holds the kernel's count of OOM kills at the last two samples. It needs two, because a kill may be counted
// just before a sample and reaped just after it.
type oomWatch struct{ before, last uint64 }

func (o *oomWatch) sample(n uint64) { o.before, o.last = o.last, n }

// Vitals implements Process.
func (p *program) Vitals() (Vitals, error) {
	pid := p.Pid()
	stat, err := readStat(pid)
	select {
	case <-p.ended:
		return Vitals{}, fmt.Errorf("process %d has ended", pid)
	default:
	}
	if err != nil {
		return Vitals{}, fmt.Errorf("read vitals of process %d: %w", pid, err)
	}
	members := p.link.members(p)
	v := Vitals{State: stat.state, Count: len(members)}
	for _, id := range members {
		v.Resident += resident(id.pid)
	}
	return v, nil
}

// members returns the program's processes: those of its group with their descendants. Without a group it returns its
// process tree, with the processes that left the tree for the guardian.
func (l *link) members(p *program) []procID {
	roots := []int{p.Pid()}
	if in, ok := p.group(); ok {
		for _, id := range in.members() {
			roots = append(roots, id.pid)
		}
		return tree(roots...)
	}
	known := make(map[int]bool)
	for _, other := range l.all() {
		known[other.Pid()] = true
	}
	mark := fmt.Sprintf("%s%d.", l.mark, p.seq)
	for _, pid := range childrenOf(l.pid()) {
		if !known[pid] && environHas(pid, mark) {
			roots = append(roots, pid)
		}
	}
	return tree(roots...)
}

// group returns the program's group; ok is false where it has none.
func (p *program) group() (g group, ok bool) {
	if p.held.Load()&groupHeld == 0 {
		return group{}, false
	}
	name := leafName(fmt.Sprintf("%s%d.", p.link.mark, p.seq))
	return group{filepath.Join(p.link.group.path, name)}, true
}

// oomKilled reports whether the kernel killed a process of the program for memory. Its group says so; without one, the
// machine's count is used.
func (p *program) oomKilled(x exitReport) bool {
	if x.group&eventsKnown != 0 {
		return x.group&oomKilled != 0
	}
	return p.link.oomSince(x)
}

// sample enforces the limits of every program until the guardian is gone.
func (l *link) sample() {
	ticker := time.NewTicker(sampleTime)
	defer ticker.Stop()
	for {
		select {
		case <-l.down:
			return
		case <-ticker.C:
		}
		programs := l.all()
		if len(programs) == 0 {
			continue
		}
		l.sampleOOM()
		for _, p := range programs {
			p.checkLimits()
		}
	}
}

func (l *link) sampleOOM() {
	n := oomKills()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ooms.sample(n)
}

// oomSince reports whether the kernel has killed for memory since the sample before last. It reads the count only after
// a SIGKILL that the guardian did not send, because reading is slow.
func (l *link) oomSince(x exitReport) bool {
	if !x.status.Signaled() || x.status.Signal() != syscall.SIGKILL || x.killed {
		return false
	}
	n := oomKills()
	l.mu.Lock()
	defer l.mu.Unlock()
	return n > l.ooms.before
}

// checkLimits kills the program if its processes exceed a limit that the kernel does not enforce.
func (p *program) checkLimits() {
	limits := p.spec.Limits
	sampled := limits.Processes > 0 || limits.Memory > 0 && p.held.Load()&memoryHeld == 0
	if p.Pid() == 0 || !sampled {
		return
	}
	members := p.link.members(p)
	switch {
	case limits.Processes > 0 && len(members) > limits.Processes:
		p.killFor(CauseProcesses)
	case limits.Memory > 0 && p.held.Load()&memoryHeld == 0 && overMemory(members, limits.Memory):
		p.killFor(CauseMemory)
	}
}

// overMemory adds up resident sizes. They count shared pages once for each process. So a sum over the limit is checked
// against the kernel's proportional sizes, which are slower to read.
func overMemory(members []procID, limit int64) bool {
	var sum int64
	for _, id := range members {
		sum += resident(id.pid)
	}
	if sum <= limit {
		return false
	}
	var exact int64
	for _, id := range members {
		pss, ok := proportional(id.pid)
		if !ok {
			pss = resident(id.pid)
		}
		exact += pss
	}
	return exact > limit
}

// Resident returns the resident bytes of a process and all its descendants; shared pages count once for each of them.
func Resident(pid int) (int64, error) {
	if _, err := readStat(pid); err != nil {
		return 0, fmt.Errorf("read size of process %d: %w", pid, err)
	}
	var sum int64
	for _, id := range tree(pid) {
		sum += resident(id.pid)
	}
	return sum, nil
}
