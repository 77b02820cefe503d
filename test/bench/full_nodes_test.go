package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/test/servers"
)

// scaled is a size of a benchmark. With -short, which only tries a benchmark, it is a tenth.
func scaled(n int) int {
	if testing.Short() {
		return max(n/10, 1)
	}
	return n
}

// binary builds the troupe program into a temporary folder.
func binary(b *testing.B) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "troupe")
	if out, err := exec.Command("go", "build", "-o", path, "../../cmd/troupe").CombinedOutput(); err != nil {
		b.Fatalf("build troupe: %v\n%s", err, out)
	}
	return path
}

// member is one node of a cluster: a process of the real program with a data folder and an address of its own. Benchmarks kill,
// freeze and restart it by its process id.
type member struct {
	b       *testing.B
	name    string
	url     string
	program string
	env     []string
	log     *os.File
	client  *client.Client
	command *exec.Cmd     // nil if it does not run
	ended   chan struct{} // closed when the process has ended
}

// cluster starts nodes a, b, c … on the servers, with a new database and prefix. It returns when all of them are ready.
func (f *full) cluster(b *testing.B, program string, size int, env ...string) []*member {
	b.Helper()
	url := f.fresh(b)
	return members(b, program, size, append([]string{
		"TROUPE_STORE_URL=" + url, "TROUPE_MESSAGE_QUEUE_RABBITMQ_URL=" + f.rabbitmq.URL,
		fmt.Sprintf("TROUPE_MESSAGE_QUEUE_RABBITMQ_PREFIX=bench%d", f.database),
	}, env...)...)
}

// alone starts one node on Postgres only, with a new database.
func (f *full) alone(b *testing.B, program string) *member {
	b.Helper()
	return members(b, program, 1, "TROUPE_STORE_URL="+f.fresh(b))[0]
}

// members starts nodes a, b, c … and returns when all of them are ready. Without settings each has an embedded store.
func members(b *testing.B, program string, size int, env ...string) []*member {
	b.Helper()
	ports, err := servers.FreePorts(size)
	if err != nil {
		b.Fatal(err)
	}
	var all []*member
	for i, port := range ports {
		m := &member{b: b, name: string(rune('a' + i)), url: "http://" + servers.Loopback(port), program: program}
		m.env = append([]string{"TROUPE_NODE_NAME=" + m.name, "TROUPE_LISTEN=" + servers.Loopback(port), "TROUPE_DATA=" + b.TempDir()}, env...)
		if m.client, err = client.New(servers.Loopback(port), ""); err != nil {
			b.Fatal(err)
		}
		if m.log, err = os.Create(filepath.Join(b.TempDir(), "log")); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(m.end)
		m.start()
		all = append(all, m)
	}
	for _, m := range all {
		m.ready()
	}
	return all
}

// start starts the program and does not wait.
func (m *member) start() {
	m.b.Helper()
	command := exec.Command(m.program, "node")
	command.Env = append(os.Environ(), m.env...)
	command.Stdout, command.Stderr = m.log, m.log
	if err := command.Start(); err != nil {
		m.b.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = command.Wait() }() // the exit status does not matter: the benchmark may have killed it
	m.command, m.ended = command, ended
}

// ready waits until the node and all its workers are ready.
func (m *member) ready() {
	m.b.Helper()
	await(m.b, "node "+m.name+" ready", func() bool {
		var r api.Readiness
		var l api.PoolList
		if m.client.Get(m.b.Context(), "/readyz", &r) != nil || !r.Ready || m.client.Get(m.b.Context(), "/api/v1/pools", &l) != nil {
			return false
		}
		for _, p := range l.Pools {
			if p.Ready < p.Workers {
				return false
			}
		}
		return len(l.Pools) > 0
	})
}

// kill ends the process by SIGKILL.
func (m *member) kill() {
	m.signal(syscall.SIGKILL)
	<-m.ended
	m.command = nil
}

func (m *member) signal(s syscall.Signal) {
	m.b.Helper()
	if err := m.command.Process.Signal(s); err != nil {
		m.b.Fatalf("node %s: %v", m.name, err)
	}
}

// end removes everything of the node, and shows its log if the benchmark failed.
func (m *member) end() {
	if m.command != nil {
		_ = m.command.Process.Kill() // fails if it has ended
		<-m.ended
		m.command = nil
	}
	m.client.Close()
	_ = m.log.Close()
	if text, err := os.ReadFile(m.log.Name()); m.b.Failed() && err == nil {
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		m.b.Logf("the log of node %s ends with\n%s", m.name, strings.Join(lines[max(0, len(lines)-30):], "\n"))
	}
}

// incarnation is the live incarnation of a named node, according to this node; empty: there is none.
func (m *member) incarnation(name string) string {
	var l api.NodeList
	ctx, cancel := context.WithTimeout(m.b.Context(), 10*time.Second)
	defer cancel()
	if err := m.client.Get(ctx, "/api/v1/nodes", &l); err != nil {
		return ""
	}
	for _, n := range l.Nodes { // newest first
		if n.Name == name && n.State == store.NodeActive {
			return n.Incarnation.String()
		}
	}
	return ""
}
