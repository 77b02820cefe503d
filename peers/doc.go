// Package peers carries envelopes between the nodes of one cluster, and asks other nodes questions. It owns this node's
// side of the remoting: the address, the peers that may connect, the messages that are accepted, and the bounds of the
// queues. It decides nothing about the cluster: package membership decides which nodes live, and the answer of a peer
// is only a hint.
//
// protoactor's remoting lets any peer send any message to any actor. One message of an unknown type ends the process,
// and queues for slow peers have no bound. So this package limits it:
//
//   - It has an actor system of its own, in which there are only the library's actors. Nothing from the network can reach an
//     actor of the tree.
//   - Both sides of a connection first prove that they know the cluster's secret (see package proof), and that each is the node that the
//     store has at its address (register). Until then the time, the bytes and the number of connections are small (trackedCredentials).
//     After that each write carries a tag. A node of an older release is accepted without a proof while the store says that it lives
//     and is of that release (trust).
//   - The gate reads incoming messages before the library does. It accepts only envelopes of one wire type, sent to one name, up to a
//     size, and up to a number at a time. It counts and drops everything else, and ends nothing for it.
//   - Requests that may wait for an actor, a process or the store have slots of their own, and are refused when those are taken. So a
//     node that is busy with such requests still answers probes.
//   - Outgoing messages are counted for each address until they are written (lane). A peer that does not read gets no more messages.
//   - When a connection ends, the peer becomes suspect, but is not declared dead. Callers that wait for its answer get an error at once.
//     Membership then looks at the store soon, and may ask whether anything listens at the peer's address (Refuses).
//
// The node opens a Network with its identity before it joins the others, and passes its Heard to membership. The peers
// actor probes every peer periodically, and shows which of them answer.
//
// Its tests take long: they cut, freeze and slow connections until a peer is given up.
package peers
