package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/cmd/troupe/config"
	"github.com/troupe-run/troupe/messages/secret"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/pack"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/sqlite"
)

const (
	// spaceLow is the free disk space below which the doctor warns, in bytes.
	spaceLow = 1 << 30
	// storeName is the embedded store's file in the data folder.
	storeName = "troupe.db"
	// lookTime bounds each check that starts a program or opens a connection.
	lookTime = 10 * time.Second
)

// finding is what the doctor saw of one thing.
type finding struct {
	Check  string `json:"check"`
	State  string `json:"state"` // ok, warn, fail
	Detail string `json:"detail"`
	Advice string `json:"advice,omitempty"`
}

func ok(detail string) finding { return finding{State: "ok", Detail: detail} }
func warn(detail, advice string) finding {
	return finding{State: "warn", Detail: detail, Advice: advice}
}
func fail(detail, advice string) finding {
	return finding{State: "fail", Detail: detail, Advice: advice}
}

// of names what the finding is about.
func (f finding) of(check string) finding {
	f.Check = check
	return f
}

// doctor is the verb that checks a machine and its servers.
type doctor struct{ configuration }

func (d doctor) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check that a node can run here", Args: exactly(),
		Long: "Check, with the configuration that `troupe node` would have, everything that a node needs of this machine and, in the\n" +
			"full mode, of Postgres and RabbitMQ. Every finding is ok, warn (a node runs, with a problem) or fail (a node\n" +
			"does not run). Exit 1 if something fails. Nodes may be running meanwhile.",
	}
	configFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		loaded, err := d.load(cmd.Flags())
		if err != nil {
			return err
		}
		return d.report(examine(cmd.Context(), loaded))
	}
	return cmd
}

// report shows the findings; the advice stands below the table, where it has room.
func (d doctor) report(findings []finding) error {
	rows, failed := make([][]string, len(findings)), false
	for i, f := range findings {
		f.Detail, f.Advice = secret.Text(f.Detail), secret.Text(f.Advice)
		findings[i] = f
		rows[i] = []string{f.Check, f.State, f.Detail}
		failed = failed || f.State == "fail"
	}
	if err := d.show(findings, []string{"CHECK", "STATE", "DETAIL"}, rows); err != nil {
		return err
	}
	if d.output != "json" {
		for _, f := range findings {
			if f.Advice != "" {
				fmt.Fprintf(d.out, "%s: %s\n", f.Check, visibleLines(f.Advice))
			}
		}
	}
	if failed {
		return errSilent
	}
	return nil
}

// examine runs every check. One that fails does not hinder the others.
func examine(ctx context.Context, l *config.Loaded) []finding {
	type check struct {
		name string
		look func(context.Context, *config.Loaded) finding
	}
	checks := []check{
		{"data folder", dataFolder}, {"disk space", diskSpace}, {"address", address}, {"running node", runningNode},
	}
	for _, r := range config.Runtimes() {
		if program := l.Runtime.Interpreters[r.Name]; program != nil {
			checks = append(checks, check{string(r.Name), func(ctx context.Context, _ *config.Loaded) finding {
				return interpreter(ctx, *program, "runtime."+string(r.Name), string(r.Name))
			}})
		}
	}
	checks = append(checks, []check{
		{"packs", packs}, {"clock", clockSane}, {"environment", environment},
		{"memory and cores", func(context.Context, *config.Loaded) finding {
			return memoryAndCores(process.FindBounds(), os.Getenv("GOMEMLIMIT"), runtime.GOMAXPROCS(0))
		}},
		{"containment", func(context.Context, *config.Loaded) finding { return containment(process.Survey()) }},
	}...)
	var findings []finding
	for _, c := range checks {
		bounded, cancel := context.WithTimeout(ctx, lookTime)
		findings = append(findings, c.look(bounded, l).of(c.name))
		cancel()
	}
	if l.Exposed != "" {
		findings = append(findings, warn(l.Exposed, "or name the tokens' variables with token_env, and give addresses in the environment").of("secrets"))
	}
	findings = append(findings, timeouts(l)...)
	if l.Store.URL == "" {
		return append(findings, storeFile(ctx, l).of("store"))
	}
	return append(findings, examineServers(ctx, l)...)
}

// dataFolder writes a file where the node would. It makes no folder: the doctor leaves nothing behind.
func dataFolder(_ context.Context, l *config.Loaded) finding {
	const advice = "make the folder writable for this user, or name another with --data"
	folder, said := l.Data, l.Data+" is writable"
	if at := existing(l.Data); at != l.Data {
		folder, said = at, l.Data+" is made at the first start"
	} else if err := node.CheckFolder(l.Data); err != nil {
		if wide := (*node.WideError)(nil); errors.As(err, &wide) && wide.Mended() {
			return warn(err.Error(), "a node of this user takes it from the group at its start")
		}
		return fail(err.Error(), "a node does not start before that")
	}
	f, err := os.CreateTemp(folder, ".doctor-*")
	if err != nil {
		return fail(err.Error(), advice)
	}
	defer os.Remove(f.Name())
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fail(err.Error(), "the disk does not take writes; look at the kernel's log")
	}
	return ok(said)
}

func diskSpace(_ context.Context, l *config.Loaded) finding {
	var s syscall.Statfs_t
	if err := syscall.Statfs(existing(l.Data), &s); err != nil {
		return warn(err.Error(), "")
	}
	free := s.Bavail * uint64(s.Bsize)
	detail := fmt.Sprintf("%d MiB free", free>>20)
	if free < spaceLow {
		return warn(detail, "free some, or set retention.executions lower")
	}
	return ok(detail)
}

// existing is the closest folder above path that is there.
func existing(path string) string {
	for path != "/" && path != "." {
		if _, err := os.Stat(path); err == nil {
			return path
		}
		path = filepath.Dir(path)
	}
	return path
}

// storeFile opens the store, which migrates it as a node would. A store that another node has is in order.
func storeFile(ctx context.Context, l *config.Loaded) finding {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	path := filepath.Join(l.Data, storeName)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return ok(path + " is made at the first start")
	}
	s, err := sqlite.Open(ctx, sqlite.Config{Path: path})
	switch {
	case errors.Is(err, store.ErrLocked):
		return ok(path + " is in use by a running node")
	case errors.Is(err, store.ErrNewer):
		return fail(err.Error(), "install the troupe that wrote it, or name another folder with --data")
	case err != nil:
		return fail(err.Error(), "restore the file from a backup, or name another folder with --data")
	}
	if err := s.Close(); err != nil {
		return fail(err.Error(), "")
	}
	return ok(path + " opens, its schema is current")
}

// address listens where the node would. An address that a Troupe node holds is in order.
func address(ctx context.Context, l *config.Loaded) finding {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", l.Listen)
	if err == nil {
		listener.Close()
		return ok(l.Listen + " is free")
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		if alive(ctx, localURL(l)) {
			return ok(l.Listen + " is held by a running node")
		}
		return fail(l.Listen+" is in use by another program", "stop it, or choose another address with --listen")
	}
	return fail(err.Error(), "choose an address of this machine with --listen")
}

func alive(ctx context.Context, address string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/healthz", nil)
	if err != nil {
		return false
	}
	response, err := localClient.Do(r)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// interpreter starts the program with --version. Only packs that use it need it.
func interpreter(ctx context.Context, program, key, runtime string) finding {
	path, err := exec.LookPath(program)
	if err != nil {
		return warn(program+" is not on PATH", fmt.Sprintf("install it or set %s, where packs with runtime %s are used", key, runtime))
	}
	out, err := exec.CommandContext(ctx, path, "--version").CombinedOutput()
	if err != nil {
		return fail(fmt.Sprintf("%s --version: %s", path, err), "set "+key+" to one that works")
	}
	return ok(path + " " + strings.TrimSpace(clipTo(string(out), 60)))
}

func packs(_ context.Context, l *config.Loaded) finding {
	set, err := pack.Load(l.Packs, pack.Options{Runtimes: config.Runtimes(), Workers: l.Pool.Workers.Map(), Script: process.ScriptProblem})
	if err != nil {
		problems := strings.Split(err.Error(), "\n")
		return fail(fmt.Sprintf("%d problems", len(problems)), "correct these; `troupe reload` takes the packs up again\n  "+strings.Join(problems, "\n  "))
	}
	detail := fmt.Sprintf("%d packs with %d actions, beside the built-in ones", len(set.Packs), len(set.Actions))
	if n := len(set.Warnings); n > 0 {
		return warn(fmt.Sprintf("%s; %d warnings", detail, n), "a node serves them as they are\n  "+strings.Join(set.Warnings, "\n  "))
	}
	return ok(detail)
}

// clockSane refuses a clock that is plainly wrong: leases are measured by the store's, run_at by this one.
func clockSane(context.Context, *config.Loaded) finding {
	now := time.Now().UTC()
	if now.Year() < 2025 || now.Year() > 2100 {
		return fail("the clock says "+now.Format(time.RFC3339), "set it, and keep it set with NTP")
	}
	return ok(now.Format(time.RFC3339))
}

func environment(_ context.Context, l *config.Loaded) finding {
	if len(l.Warnings) > 0 {
		return warn(strings.Join(l.Warnings, "; "), "correct the names, or unset them")
	}
	return ok("every TROUPE_ variable names a key")
}

// memoryLow is the smallest memory limit under which a node holds a load, in bytes.
const memoryLow = 128 << 20

// memoryAndCores says what bounds this process, and what a node makes of it.
func memoryAndCores(b process.Bounds, given string, cores int) finding {
	version, memory, heap := "no cgroup", "no limit of memory", "no limit of the heap"
	if b.Version != "" {
		version = "cgroup " + b.Version
	}
	if b.Memory > 0 {
		memory = fmt.Sprintf("%d MiB of memory by %s", b.Memory>>20, b.MemoryAt)
		heap = fmt.Sprintf("the heap's limit is %d MiB", process.HeapLimit(b.Memory)>>20)
	}
	if given != "" {
		heap = "the heap's limit is GOMEMLIMIT=" + given
	}
	quota := "no quota"
	if b.Cores > 0 {
		quota = fmt.Sprintf("a quota of %.3g by %s", b.Cores, b.CoresAt)
	}
	detail := fmt.Sprintf("%s: %s; %s; %d cores used, %s", version, memory, heap, cores, quota)
	if b.Memory > 0 && b.Memory < memoryLow {
		return warn(detail, "give the node and its workers 128 MiB or more; docs/operations.md says what takes memory")
	}
	return ok(detail)
}

// containment says what ends descendants and what holds limits. Every way of doing it is in order; where the kernel could
// do more, the reason why it does not is told.
func containment(c process.Containment) finding {
	delegated := "no controller is delegated"
	if len(c.Delegated) > 0 {
		delegated = "delegated: " + strings.Join(c.Delegated, ", ")
	}
	f := ok(fmt.Sprintf("%s; end by %s; limits.memory by %s; limits.processes by %s", delegated, c.End, c.Memory, c.Processes))
	if c.Reason != "" {
		f.Advice = c.Reason + "; docs/operations.md says how to delegate one"
	}
	return f
}
