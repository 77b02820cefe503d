// Package rabbitmq is the adapter of package broker for RabbitMQ 3.10 and later, over AMQP 0-9-1. It owns the connections
// and nothing else: no message, no queue's name and no truth. The node opens it; the bridges and the routers use it.
//
// # Connections
//
// There are two, one to publish and one for everything else: a server under a memory or disk alarm stops reading from
// whoever publishes, and acks on the same connection would be stuck. Each is kept up by a link, which connects again with
// a jittered exponential back-off. The library's own recovery stays off, since it lets delivery tags of the old
// connection settle messages of the new one. Here a connection is a session: its channels, consumers and deliveries end
// with it, and nothing is declared or consumed anew by itself; who consumes declares its queue and consumes again.
//
// Writes go through a wire, which collects frames while a write is under way.
//
// # Publishing
//
// Callers' requests go to lanes. A lane is a channel in confirm mode, owned by one goroutine, with a bounded window of
// unconfirmed messages, so that callers are grouped without waiting for each other. A returned message is matched by a
// number in its app_id. No caller waits longer than its context says, or at all for a server that takes no messages.
//
// # Queues that the server cannot use
//
// Where the server ends the connection with an error of its own, the queues that were being declared, consumed from or
// looked at are suspects. So is a queue for which the server does not let somebody consume, or go on with another prefetch, within
// 10 s: that consumer ends. Each is tried alone, on a connection that lives for the trial, before it is used again. One that
// the server cannot use is deleted and declared anew if its declaration says that it is expendable; otherwise it is
// broker.ErrBroken, and tried again later.
//
// # Consuming
//
// A consumer is a channel, owned by one goroutine. Ack and Nack hand their verdict over through a queue that can hold the
// whole prefetch, so they never wait and may be called inside an actor. Runs of acks become one ack for many where the
// ledger shows that nothing else is below. AMQP confirms no settlement: nil means that it is on its way, and after a lost
// connection the message comes again. What a cancelled consumer did not read goes back with a nack each, which counts
// toward a quorum queue's delivery limit.
//
// AMQP's prefetch counts messages, and servers bound the bytes of none below their max_message_size. So a consumer begins
// with a few, asks for all that it may have once they are known to be small, and for fewer behind a large one: see window.
// Another number is another subscription on the same channel, so that what is unsettled stays so. What comes while too many
// bytes are in hand goes back at once.
//
// A quorum queue's channel holds settlements back while more than 32 commands of it are under way
// (quorum_commands_soft_limit), and forgets them if it is closed then (rabbitmq-server's issue 10327). So a broker that
// is closed cancels its consumers first: what came before the server's answer counts. A consumer that was cancelled
// earlier has nothing left to cancel, and what it settles in haste before the end may come again.
//
// Its tests take long: they start, kill, freeze and fill private servers, and such a server takes some seconds to start.
package rabbitmq
