package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
)

// redis is a Redis server of this command, in a folder of its own.
type redis struct {
	cmd    *exec.Cmd
	folder string
	socket string
}

// startRedis starts the server and waits until its socket answers.
func startRedis(sync string) (*redis, error) {
	folder, err := os.MkdirTemp("", "asynq")
	if err != nil {
		return nil, err
	}
	r := &redis{folder: folder, socket: filepath.Join(folder, "redis.sock")}
	args := []string{"--port", "0", "--unixsocket", r.socket, "--dir", folder, "--daemonize", "no"}
	switch sync {
	case "default":
	case "always", "everysec":
		args = append(args, "--appendonly", "yes", "--appendfsync", sync, "--save", "")
	default:
		return nil, fmt.Errorf("-sync %q: give always, everysec or default", sync)
	}
	r.cmd = exec.Command("redis-server", args...)
	r.cmd.Stderr = os.Stderr
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("redis-server does not start (on Debian: apt-get install redis-server): %w", err)
	}
	if err := r.ready(); err != nil {
		return nil, errors.Join(err, r.end())
	}
	return r, nil
}

// ready waits until the server answers, up to ten seconds.
func (r *redis) ready() (err error) {
	for limit := time.Now().Add(10 * time.Second); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		inspector := asynq.NewInspector(r.options())
		_, err = inspector.Queues()
		if err = errors.Join(err, inspector.Close()); err == nil {
			return nil
		}
	}
	return fmt.Errorf("redis-server does not answer within ten seconds: %w", err)
}

func (r *redis) options() asynq.RedisClientOpt {
	return asynq.RedisClientOpt{Network: "unix", Addr: r.socket}
}

// end stops the server and removes its folder.
func (r *redis) end() error {
	err := r.cmd.Process.Signal(syscall.SIGTERM)
	if err == nil {
		err = r.cmd.Wait()
	}
	return errors.Join(err, os.RemoveAll(r.folder))
}

// usage is CPU time by process.
type usage struct{ own, redis time.Duration }

func (u usage) minus(v usage) usage { return usage{u.own - v.own, u.redis - v.redis} }

func (u usage) per(tasks int) string {
	scale := 10_000 / float64(tasks)
	return fmt.Sprintf("client %.2f, redis %.2f", u.own.Seconds()*scale, u.redis.Seconds()*scale)
}

// usage is the CPU time so far of this command and of the server, whose forks that rewrite its file count once they have ended.
func (r *redis) usage() usage {
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return usage{}
	}
	u := usage{own: time.Duration(own.Utime.Nano() + own.Stime.Nano())}
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(r.cmd.Process.Pid) + "/stat")
	if err != nil {
		return u
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 15 {
		return u
	}
	for _, field := range fields[11:15] { // proc(5): utime, stime, and those of ended children, in clock ticks of 1/100 s
		n, err := strconv.Atoi(field)
		if err == nil {
			u.redis += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return u
}
