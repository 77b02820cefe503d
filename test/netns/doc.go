// Package netns gives a test a small network of its own: hosts in Linux network namespaces, on one bridge, and addresses
// of the test's side, behind which servers listen. The hosts can be cut off from each address alone, in one direction or
// both, or unplugged; connections that stand are cut with the rest, for their packets vanish.
//
// It needs Linux, the program ip, and the rights of root. Where a test may not have these it fails and says so, for a
// partition that was never made proves nothing; TROUPE_TEST_NETNS=off leaves such tests out, and each says that, too.
//
// Namespaces carry the maker's process id and start time in their names. They go with the test, and those that a maker
// left behind which was killed go when the next network is opened. Nothing else is touched: neither the test's own
// routes nor its firewall, and only one link is added there, which goes with the namespaces.
package netns
