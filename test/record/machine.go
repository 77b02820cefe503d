package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// thisMachine describes the machine. The benchmarks' output names its processor.
func thisMachine() (Machine, error) {
	m := Machine{Cores: runtime.NumCPU()}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return m, err
	}
	m.Kernel = strings.TrimSpace(string(kernel))
	memory, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return m, err
	}
	var kib int
	if _, err := fmt.Sscanf(string(memory), "MemTotal: %d kB", &kib); err != nil {
		return m, fmt.Errorf("/proc/meminfo: %w", err)
	}
	m.Memory = kib / 1024
	m.SyncMs, err = syncTime()
	return m, err
}

// syncTime is the median time of 200 writes of 4 KiB with fdatasync, in the folder for temporary files, which benchmarks use.
func syncTime() (float64, error) {
	folder, err := os.MkdirTemp("", "troupe-record-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	f, err := os.Create(filepath.Join(folder, "sync"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	block, took := make([]byte, 4096), make([]float64, 200)
	for i := range took {
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			return 0, err
		}
		took[i] = float64(time.Since(began).Microseconds()) / 1000
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// loadAverage is the load average of one minute.
func loadAverage() float64 {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(raw), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return load
}

// commit is the commit, and whether files differ from it.
func commit() (string, error) {
	head, err := exec.Command("git", "rev-parse", "--short=10", "HEAD").Output()
	if err != nil {
		return "", fmt.Errorf("git rev-parse HEAD: %w", err)
	}
	changed, err := exec.Command("git", "status", "--porcelain", "--", ".", ":!docs").Output()
	if err != nil {
		return "", fmt.Errorf("git status: %w", err)
	}
	name := strings.TrimSpace(string(head))
	if len(changed) > 0 {
		name += " with changes"
	}
	return name, nil
}

// modules are the peers that have a module of their own under test/bench, and the pattern of their version in its go.mod.
var modules = map[string]*regexp.Regexp{
	"river": regexp.MustCompile(`riverqueue/river v(\S+)`),
	"asynq": regexp.MustCompile(`hibiken/asynq v(\S+)`),
}

var redisVersion = regexp.MustCompile(`v=(\S+)`)

// versions are the versions of programs on this machine. Benchmarks print those of the servers that they start.
func versions() map[string]string {
	all := map[string]string{"go": strings.TrimPrefix(runtime.Version(), "go")}
	if out, err := exec.Command("python3", "--version").Output(); err == nil {
		all["python"] = strings.TrimPrefix(strings.TrimSpace(string(out)), "Python ")
	}
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if out, err := exec.Command(python, "-c", "import celery; print(celery.__version__)").Output(); err == nil {
			all["celery"] = strings.TrimSpace(string(out))
			break
		}
	}
	if out, err := exec.Command("redis-server", "--version").Output(); err == nil {
		if m := redisVersion.FindSubmatch(out); m != nil {
			all["redis"] = string(m[1])
		}
	}
	for name, version := range modules {
		if raw, err := os.ReadFile("test/bench/" + name + "/go.mod"); err == nil {
			if m := version.FindStringSubmatch(string(raw)); m != nil {
				all[name] = m[1]
			}
		}
	}
	return all
}

// settings are the environment variables that change benchmarks.
func settings() []string {
	var all []string
	for _, name := range []string{"TROUPE_SUSTAINED", "TROUPE_BENCH_DAY", "GOMAXPROCS", "GOGC"} {
		if value, ok := os.LookupEnv(name); ok {
			all = append(all, name+"="+value)
		}
	}
	return all
}
