package peers

import (
	"os"
	"strings"
)

// Scope is who may dial Address: empty, every node; else those alone that have the same scope. A loopback address has that of
// the machine.
func (n *Network) Scope() string { return n.scope }

// Advertised is what other nodes are told of where this one is reached. Both are empty for a loopback address on a machine
// that cannot be told from others: whoever dialled it there could mean another node.
func (n *Network) Advertised() (address, scope string) {
	if n.unplaced() {
		return "", ""
	}
	return n.address, n.scope
}

// unplaced reports whether nobody can know what this node's address means.
func (n *Network) unplaced() bool { return n.scope == "" && loops(n.address) }

// shares reports whether an address means the same node here as where it was written. Nodes of two scopes leave each other
// alone altogether: a peer that could be dialled in one direction only would look like one that cannot be reached, and a node
// that reaches none of its peers gives its work up when the store goes. A loopback address without a scope, which an older
// version writes, may be any machine's.
func (n *Network) shares(address, scope string) bool {
	return scope == n.scope && !n.unplaced() && (scope != "" || !loops(address))
}

// loops reports whether an address is a loopback one.
func loops(address string) bool {
	host, ok := splitAddress(address)
	return ok && loopback(host)
}

// machine names this boot of this machine and the network namespace of the process; empty: the kernel does not say.
func machine() string { return machineOf("/proc/sys/kernel/random/boot_id", "/proc/self/ns/net") }

func machineOf(boot, namespace string) string {
	id, err := os.ReadFile(boot)
	if err != nil {
		return ""
	}
	link, err := os.Readlink(namespace) // "net:[4026531840]": the number is that of the inode
	if err != nil {
		return ""
	}
	number, ok := strings.CutPrefix(link, "net:[")
	number, closed := strings.CutSuffix(number, "]")
	name := strings.TrimSpace(string(id))
	if !ok || !closed || name == "" || number == "" {
		return ""
	}
	return name + "/" + number
}
