// Package peers carries envelopes between the nodes of one cluster and asks other nodes what they know. It owns this
// node's end of the remoting: where it listens, who may speak to it, what may come in, and how much may wait to go out.
// It decides nothing about the cluster: membership says who lives, and what a peer answers is a hint.
//
// The remoting of protoactor lets any peer send any message to any actor, lets one message of an unknown type end the
// process, and puts no bound on what waits for a slow peer. So this package keeps it on a short line:
//
//   - It has an actor system of its own, with no actor in it but the library's. Nothing that comes over the network can
//     reach an actor of the tree.
//   - Whoever dials, and whoever is dialled, proves first that it knows the cluster's secret (package proof has how), and is who the store
//     knows at its address (register). Until then it gets little time, few bytes and few places (door). What it writes then carries
//     tags. A node of an older release is taken without while the store says that it lives and is one (trust).
//   - What comes in is taken off the stream before the library sees it (see gate): only envelopes of one wire type, sent to
//     one name, small enough and few enough at a time. Everything else is counted and dropped; it ends nothing.
//   - A request that may wait for an actor, a process or the store has places of its own, and is refused where they are taken: a
//     node that is busy with steering is heard all the same by those that ask whether it lives.
//   - What goes out is counted by address until it is written (see lane): a peer that takes nothing gets nothing more.
//   - A connection that ends makes a peer suspect, never dead. Whoever waited for its answer is told at once.
//
// The node opens a Network before it joins the others, tells it who they are, and hands membership its Heard. The peers
// actor looks at every peer from time to time and shows how it stands with them.
package peers
