// Package netns gives a test its own small network: hosts in Linux network namespaces on one bridge, and addresses on
// the test's side on which servers listen. A host can be disconnected from each address separately, in one direction or
// both, or unplugged. Existing connections are affected too, because their packets are dropped.
//
// It needs Linux, the program ip, and root. Without these a test fails with that reason, because a partition that was
// not made proves nothing. TROUPE_TEST_NETNS=off skips such tests, and each reports that.
//
// The names of namespaces contain their maker's process id and start time. They are removed at the end of the test. If
// a maker was killed, the next network that is opened removes its namespaces. Nothing else is changed: neither the
// test's own routes nor its firewall. Only one link is added there, which is removed with the namespaces.
package netns
