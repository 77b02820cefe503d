package netns

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// offEnv leaves tests that need namespaces out, where its value is off.
const offEnv = "TROUPE_TEST_NETNS"

// Networks have 198.18.0.0/15 to themselves, which is set apart for tests of devices (RFC 2544): a /24 each.
const (
	subnets    = 512
	outsideMax = 50
	hostsMax   = 50
	firstHost  = 100 // last number of the first host's address
	switchName = "switch"
	bridge     = "br0"
	port       = "eth0"   // a host's only link
	prefix     = "troupe" // of all names
)

// opened numbers the networks of this process.
var opened atomic.Int64

// Network is a bridge with hosts on it. Its methods must not be called at the same time.
type Network struct {
	t       testing.TB
	head    string // of its namespaces' names
	subnet  string // "198.18.7."
	link    string // the one link on the test's side
	outside map[string]string
	hosts   map[string]*Host
	spaces  []string // the namespaces that were made
}

// Open makes a network with one address on the test's side for each name in outside, and one host for each name in
// hosts. It is removed at the end of the test.
func Open(t testing.TB, outside, hosts []string) *Network {
	t.Helper()
	if os.Getenv(offEnv) == "off" {
		t.Skipf("left out, as %s=off says: it needs network namespaces", offEnv)
	}
	n := &Network{
		t: t, head: fmt.Sprintf("%s-%s-%d-", prefix, self(), opened.Add(1)),
		outside: map[string]string{}, hosts: map[string]*Host{},
	}
	t.Cleanup(n.close)
	if err := n.open(outside, hosts); err != nil {
		t.Fatalf("make a network of namespaces: %v\nThis test needs the rights of root (CAP_SYS_ADMIN and CAP_NET_ADMIN) and iproute2. "+
			"Run it as root, or leave such tests out by %s=off.", err, offEnv)
	}
	return n
}

func (n *Network) open(outside, hosts []string) error {
	if len(outside) == 0 || len(outside) > outsideMax || len(hosts) > hostsMax {
		return fmt.Errorf("want 1 to %d addresses and at most %d hosts, got %d and %d", outsideMax, hostsMax, len(outside), len(hosts))
	}
	sweep()
	if err := n.addSpace(switchName); err != nil {
		return err
	}
	if err := n.ip(switchName, "link add "+bridge+" type bridge", "link set "+bridge+" up"); err != nil {
		return err
	}
	if err := n.claim(outside); err != nil {
		return err
	}
	for i, name := range hosts {
		h := &Host{net: n, Name: name, Addr: n.address(firstHost + i)}
		if err := h.make(i); err != nil {
			return fmt.Errorf("host %s: %w", name, err)
		}
		n.hosts[name] = h
	}
	return n.settle()
}

// settle waits until every host reaches every address: a link that was just plugged in carries nothing for up to a second.
func (n *Network) settle() error {
	addrs := slices.Collect(maps.Values(n.outside))
	for _, h := range n.hosts {
		addrs = append(addrs, h.Addr)
	}
	for _, h := range n.hosts {
		if err := h.Do(func() error { return reach(addrs) }); err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
	}
	return nil
}

// settleMax bounds the wait for a network to carry packets, in all and for one try.
const (
	settleMax = 20 * time.Second
	settleTry = 200 * time.Millisecond
)

// reach returns once each address has refused a connection to a port where nobody listens.
func reach(addrs []string) error {
	end := time.Now().Add(settleMax)
	for _, addr := range addrs {
		for {
			c, err := net.DialTimeout("tcp4", addr+":1", settleTry)
			if err == nil {
				c.Close() // somebody listens there: as good
			}
			if err == nil || errors.Is(err, syscall.ECONNREFUSED) {
				break
			}
			if time.Now().After(end) {
				return fmt.Errorf("waited %s to reach %s: %w", settleMax, addr, err)
			}
		}
	}
	return nil
}

// claim takes a subnet that nobody has, by the name of its link, and gives the test's side its addresses in it.
func (n *Network) claim(outside []string) error {
	taken, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	var last error
	for try := range subnets {
		at := (os.Getpid() + try) % subnets
		n.subnet = fmt.Sprintf("198.%d.%d.", 18+at/256, at%256)
		if has(taken, n.address(firstHost)) {
			continue
		}
		link := fmt.Sprintf("%s-%d-%d", prefix, 18+at/256, at%256)
		// Made on this side: the namespace of a process is that of its first thread, which may be on a host just now.
		if last = n.ip("", fmt.Sprintf("link add %s type veth peer name port0 netns %s", link, n.head+switchName)); last == nil {
			n.link = link
			break
		}
	}
	if n.link == "" {
		return errors.Join(errors.New("no subnet of 198.18.0.0/15 is free"), last)
	}
	commands := []string{}
	for i, name := range outside {
		n.outside[name] = n.address(i + 1)
		commands = append(commands, fmt.Sprintf("addr add %s/24 dev %s", n.address(i+1), n.link))
	}
	if err := n.ip("", append(commands, "link set "+n.link+" up")...); err != nil {
		return err
	}
	return n.ip(switchName, "link set port0 master "+bridge, "link set port0 up")
}

func has(addrs []net.Addr, ip string) bool {
	for _, a := range addrs {
		if of, ok := a.(*net.IPNet); ok && of.Contains(net.ParseIP(ip)) {
			return true
		}
	}
	return false
}

func (n *Network) address(last int) string { return fmt.Sprintf("%s%d", n.subnet, last) }

// Outside returns the address on the test's side with this name.
func (n *Network) Outside(name string) string {
	n.t.Helper()
	addr, ok := n.outside[name]
	if !ok {
		n.t.Fatalf("the network has no address %q outside", name)
	}
	return addr
}

// Host returns the host with this name.
func (n *Network) Host(name string) *Host {
	n.t.Helper()
	h, ok := n.hosts[name]
	if !ok {
		n.t.Fatalf("the network has no host %q", name)
	}
	return h
}

func (n *Network) addSpace(name string) error {
	if err := n.ip("", "netns add "+n.head+name); err != nil {
		return err
	}
	n.spaces = append(n.spaces, n.head+name)
	return nil
}

// ip runs commands of the program ip in a namespace of the network; in none: on the test's side.
func (n *Network) ip(space string, commands ...string) error {
	args := []string{"-batch", "-"}
	if space != "" {
		args = append([]string{"-n", n.head + space}, args...)
	}
	return run(strings.Join(commands, "\n")+"\n", args...)
}

func run(input string, args ...string) error {
	cmd := exec.Command("ip", args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s: %s", strings.Join(args, " "), err, strings.TrimSpace(input), strings.TrimSpace(string(out)))
	}
	return nil
}

// close removes the namespaces, the switch and its links first, once their processes have ended, which is their tests'
// to do.
func (n *Network) close() {
	for _, name := range n.spaces {
		if err := run("", "netns", "del", name); err != nil {
			n.t.Error(err)
		}
	}
}

// self is how this process is told from all others, those before it of the same id included.
func self() string { return identity(os.Getpid()) }

// identity is a process's id and its start time; empty where there is none.
func identity(pid int) string {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	text := string(line)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:]) // the name before it may hold anything
	const started = 19                                                  // field 22 of proc(5), counted from the third
	if len(fields) <= started {
		return ""
	}
	return fmt.Sprintf("%d-%s", pid, fields[started])
}

// spacesDir is where ip keeps its namespaces' names.
const spacesDir = "/run/netns"

// sweep removes the namespaces of makers that have ended, with the processes that were left in them. What cannot be
// removed is left to the next one: another process may be at it too.
func sweep() {
	entries, err := os.ReadDir(spacesDir)
	if err != nil {
		return // nobody has made any yet
	}
	for _, entry := range entries {
		var pid int
		var rest string
		if _, err := fmt.Sscanf(entry.Name(), prefix+"-%d-%s", &pid, &rest); err != nil {
			continue
		}
		started, _, _ := strings.Cut(rest, "-")
		if identity(pid) != fmt.Sprintf("%d-%s", pid, started) {
			abandon(entry.Name())
		}
	}
}

// abandon ends what was left in a namespace, and removes it.
func abandon(name string) {
	out, err := exec.Command("ip", "netns", "pids", name).Output()
	if err != nil {
		return // it has just been removed
	}
	for _, word := range strings.Fields(string(out)) {
		var pid int
		if _, err := fmt.Sscan(word, &pid); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL) // an error means that it has ended
		}
	}
	_ = run("", "netns", "del", name) // an error means that another process was faster
}
