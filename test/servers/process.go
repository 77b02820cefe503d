package servers

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// gone bounds the wait for the end of processes that were sent SIGKILL; look is the pause between two looks.
const (
	gone = 10 * time.Second
	look = 10 * time.Millisecond
)

// process is one program of a server, with all that it forks. It is not reaped before it is stopped or killed, so that
// its id stays its own.
type process struct {
	cmd    *exec.Cmd
	keeper *keeper
}

// launch says how a program is started.
type launch struct {
	program string
	args    []string
	env     []string // beside this process's own
	dir     string
	log     string // file that its output is appended to
	account *account
	// endBy names the signal by which the keeper ends it.
	endBy string
}

// start starts the program in a session of its own.
func (l launch) start(k *keeper) (*process, error) {
	log, err := os.OpenFile(l.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(l.program, l.args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = l.dir, append(os.Environ(), l.env...), log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: l.account.credential()}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", l.program, err)
	}
	p := &process{cmd: cmd, keeper: k}
	if err := k.keep(cmd.Process.Pid, l.endBy); err != nil {
		return nil, joinKill(p, err)
	}
	return p, nil
}

func joinKill(p *process, err error) error {
	if killed := p.kill(); killed != nil {
		return fmt.Errorf("%w; and %w", err, killed)
	}
	return err
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// alive says whether the program still runs.
func (p *process) alive() bool {
	_, ok := parentOf(p.pid())
	return ok
}

// freeze stops the family with SIGSTOP, parents first, until it forks no more.
func (p *process) freeze() error {
	stopped := map[int]bool{}
	for fresh := true; fresh; {
		fresh = false
		for _, pid := range family(p.pid()) {
			if stopped[pid] {
				continue
			}
			if err := stopNow(pid); err != nil {
				return err
			}
			stopped[pid], fresh = true, true
		}
	}
	return nil
}

// stopNow stops one process, and returns when it has stopped: the signal alone only asks.
func stopNow(pid int) error {
	if err := signal(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	return waitFor(gone, fmt.Sprintf("process %d to stop", pid), func() bool {
		state, _ := stat(pid)
		return state == "T" || state == "Z" || state == ""
	})
}

// thaw lets the family go on.
func (p *process) thaw() error {
	for _, pid := range family(p.pid()) {
		if err := signal(pid, syscall.SIGCONT); err != nil {
			return err
		}
	}
	return nil
}

// kill ends the family with SIGKILL, and returns when none of it is left.
func (p *process) kill() error {
	if err := p.freeze(); err != nil { // so that nobody forks between the look and the kill
		return err
	}
	all := family(p.pid())
	for _, pid := range all {
		if err := signal(pid, syscall.SIGKILL); err != nil {
			return err
		}
	}
	_ = p.cmd.Wait() // it was killed, and says so
	if err := p.keeper.forget(p.pid()); err != nil {
		return err
	}
	return waitFor(gone, fmt.Sprintf("the end of %s (%v)", p.cmd.Path, all), func() bool { return len(running(all)) == 0 })
}

// stop asks the program to end by a signal, and kills its family where it has not ended within the patience.
func (p *process) stop(s syscall.Signal, patience time.Duration) error {
	if err := signal(p.pid(), s); err != nil {
		return err
	}
	err := waitFor(patience, "the end of "+p.cmd.Path, func() bool { return !p.alive() })
	return joinError(err, p.kill())
}

func joinError(first, second error) error {
	if first == nil {
		return second
	}
	return first
}

// signal sends a signal to a process of ours; one that has just ended is no error.
func signal(pid int, s syscall.Signal) error {
	if err := syscall.Kill(pid, s); err != nil && err != syscall.ESRCH {
		return fmt.Errorf("signal %d with %v: %w", pid, s, err)
	}
	return nil
}

// family is the process and its living descendants, parents first.
func family(root int) []int {
	children := map[int][]int{}
	paths, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			continue
		}
		if parent, ok := parentOf(pid); ok {
			children[parent] = append(children[parent], pid)
		}
	}
	all := []int{root}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// parentOf is a process's parent; ok is false for one that has ended, reaped or not.
func parentOf(pid int) (parent int, ok bool) {
	state, parent := stat(pid)
	return parent, state != "" && state != "Z" && state != "X"
}

// stat reads the letter of a process's state and its parent; the letter is empty where there is no such process.
func stat(pid int) (state string, parent int) {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", 0
	}
	// The name stands in parentheses and may hold any character; the state and the parent follow it.
	fields := strings.Fields(string(line[bytes.LastIndexByte(line, ')')+1:]))
	if len(fields) < 2 {
		return "", 0
	}
	parent, _ = strconv.Atoi(fields[1]) // the kernel wrote it
	return fields[0], parent
}

// running are those of the processes that have not ended.
func running(pids []int) []int {
	var left []int
	for _, pid := range pids {
		if _, ok := parentOf(pid); ok {
			left = append(left, pid)
		}
	}
	return left
}

// waitFor looks until the condition holds.
func waitFor(patience time.Duration, what string, condition func() bool) error {
	for until := time.Now().Add(patience); !condition(); time.Sleep(look) { // between two looks
		if time.Now().After(until) {
			return fmt.Errorf("waited %v for %s", patience, what)
		}
	}
	return nil
}
