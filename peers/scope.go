package peers

import (
	"os"
	"strings"
)

// Scope says which nodes may dial Address. Empty means every node; otherwise only nodes with the same scope. A loopback
// address has the machine's scope.
func (n *Network) Scope() string { return n.scope }

// Advertised returns the address and the scope for other nodes. Both are empty for a loopback address on a machine that
// has no name: a peer on another machine would dial a wrong node.
func (n *Network) Advertised() (address, scope string) {
	if n.unplaced() {
		return "", ""
	}
	return n.address, n.scope
}

// unplaced reports whether this node has a loopback address without a scope.
func (n *Network) unplaced() bool { return n.scope == "" && loops(n.address) }

// shares reports whether an address leads to the same node here as on its writer's machine. Nodes of two scopes ignore
// each other: a peer that can be dialled in only one direction would look unreachable, and a node that reaches no peer
// gives up its work when the store is unavailable. A loopback address without a scope, from an older version, may
// belong to any machine.
func (n *Network) shares(address, scope string) bool {
	return scope == n.scope && !n.unplaced() && (scope != "" || !loops(address))
}

// loops reports whether an address is a loopback one.
func loops(address string) bool {
	host, ok := splitAddress(address)
	return ok && loopback(host)
}

// machine names this boot of this machine and the network namespace of the process; empty: the kernel does not tell.
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
