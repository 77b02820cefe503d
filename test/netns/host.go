package netns

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// Host is one namespace with one address.
type Host struct {
	Name string
	Addr string

	net    *Network
	faults []string // commands that undo what was done to it, newest last
}

// make makes the namespace and plugs it in.
func (h *Host) make(at int) error {
	n := h.net
	if err := n.addSpace(h.Name); err != nil {
		return err
	}
	plug := fmt.Sprintf("port%d", at+1)
	if err := n.ip(switchName, fmt.Sprintf("link add %s type veth peer name %s netns %s", plug, port, n.head+h.Name),
		"link set "+plug+" master "+bridge, "link set "+plug+" up"); err != nil {
		return err
	}
	// Where what comes is to be dropped by its sender, that is decided before anything is taken as the host's own.
	if err := n.ip(h.Name, "link set lo up", fmt.Sprintf("addr add %s/24 dev %s", h.Addr, port), "link set "+port+" up",
		"rule add pref 100 lookup local", "rule del pref 0"); err != nil {
		return err
	}
	// Else what comes from an address that the host cannot answer would be dropped too, and no fault were one-way.
	return h.Do(func() error {
		for _, of := range []string{"all", "default", port} {
			if err := os.WriteFile("/proc/sys/net/ipv4/conf/"+of+"/rp_filter", []byte("0"), 0o644); err != nil {
				return err
			}
		}
		return nil
	})
}

// Do runs a function in the host's namespace. Sockets that it makes and programs that it starts stay in that namespace.
// A goroutine that it starts does not run there.
func (h *Host) Do(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- h.inside(f) }()
	return <-done
}

// inside takes the goroutine's thread into the namespace and back. A thread that cannot be taken back ends with its
// goroutine.
func (h *Host) inside(f func() error) error {
	runtime.LockOSThread()
	own, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the own namespace: %w", err)
	}
	defer unix.Close(own)
	there, err := unix.Open(filepath.Join(spacesDir, h.net.head+h.Name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the namespace of host %s: %w", h.Name, err)
	}
	defer unix.Close(there)
	if err := unix.Setns(there, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the namespace of host %s: %w", h.Name, err)
	}
	failed := f()
	if err := unix.Setns(own, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("leave the namespace of host %s: %w", h.Name, err)
	}
	runtime.UnlockOSThread()
	return failed
}

// Start starts a program on the host.
func (h *Host) Start(cmd *exec.Cmd) error { return h.Do(cmd.Start) }

// Mute drops all packets from the host to the addresses. Packets from them still arrive.
func (h *Host) Mute(addrs ...string) {
	h.net.t.Helper()
	for _, addr := range addrs {
		h.apply("route add blackhole "+addr+"/32", "route del blackhole "+addr+"/32")
	}
}

// Deafen drops all packets from the addresses to the host. Packets from it still arrive.
func (h *Host) Deafen(addrs ...string) {
	h.net.t.Helper()
	for _, addr := range addrs {
		rule := "pref 50 from " + addr + " blackhole"
		h.apply("rule add "+rule, "rule del "+rule)
	}
}

// Cut drops all packets between the host and the addresses, in both directions.
func (h *Host) Cut(addrs ...string) {
	h.net.t.Helper()
	h.Mute(addrs...)
	h.Deafen(addrs...)
}

// Unplug disconnects the host's link. The host knows that it has no route.
func (h *Host) Unplug() {
	h.net.t.Helper()
	h.apply("link set "+port+" down", "link set "+port+" up")
}

func (h *Host) apply(fault, undo string) {
	h.net.t.Helper()
	if err := h.net.ip(h.Name, fault); err != nil {
		h.net.t.Fatal(err)
	}
	h.faults = append(h.faults, undo)
}

// Heal ends all faults of the host's network.
func (h *Host) Heal() {
	h.net.t.Helper()
	for len(h.faults) > 0 {
		last := len(h.faults) - 1
		if err := h.net.ip(h.Name, h.faults[last]); err != nil {
			h.net.t.Fatal(err)
		}
		h.faults = h.faults[:last]
	}
}
