// Package peers carries envelopes between the nodes of one cluster, and asks other nodes questions. It owns this node's end of the remoting:
// the address, who may speak to it, what may come in, and how much may wait to go out. It decides nothing about the cluster: package
// membership decides which nodes live, and the answer of a peer is only a hint.
//
// By itself the remoting of protoactor lets any peer send any message to any actor, lets one message of an unknown type end the process,
// and has no bound on what waits for a slow peer. So this package limits it:
//
//   - It has an actor system of its own, in which there are only the library's actors. Nothing from the network can reach an
//     actor of the tree.
//   - Both sides of a connection first prove that they know the cluster's secret (see package proof), and that each is the node that the
//     store has at its address (register). Until then a connection gets little time, few bytes and few places (door). After that each
//     write carries a tag. A node of an older release is accepted without a proof while the store says that it lives and is of
//     that release (trust).
//   - What comes in is taken off the stream before the library sees it (gate). Only envelopes of one wire type are accepted, sent to one
//     name, up to a size, and up to a number at a time. Everything else is counted and dropped. It ends nothing.
//   - A request that may wait for an actor, a process or the store has places of its own, and is refused when they are taken. So a node
//     that is busy with such requests still answers those that ask whether it lives.
//   - What goes out is counted for each address until it is written (lane). A peer that reads nothing is sent nothing more.
//   - When a connection ends, the peer is suspected, and never declared dead for it. A caller that waits for its answer is told at once.
//
// The node opens a Network before it joins the others, tells it its own identity, and gives its Heard to membership. The peers actor
// asks every peer from time to time, and shows which of them answer.
package peers
