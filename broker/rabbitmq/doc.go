// Package rabbitmq is the adapter of package broker for RabbitMQ 3.10 and later, over AMQP 0-9-1. It owns only the
// connections, and neither messages, names of queues nor state. The node opens it; the bridges and the routers use it.
//
// # Connections
//
// There are two, one to publish and one for everything else. A server under a memory or disk alarm stops reading from
// connections that publish, so acks on the same connection would be stuck. For each connection a link connects again
// after a loss, with a jittered exponential back-off. The library's own recovery stays off, since with it delivery tags
// of the old connection can settle messages of the new one. Here a connection is a session: its channels, consumers and
// deliveries end with it. Nothing is declared or consumed again automatically: the caller declares its queue and
// consumes again.
//
// All writes use a wire, which collects frames while a write is under way.
//
// # Publishing
//
// Callers' requests go to lanes. A lane is a channel in confirm mode, owned by one goroutine, with a bounded window of
// unconfirmed messages. So requests of several callers share a channel without waiting for each other. A number in its
// app_id identifies a returned message. No caller waits longer than its context, and none waits for a server that
// accepts no messages.
//
// # Queues that the server cannot use
//
// When the server ends the connection with an internal error, the queues that were being declared, consumed from or
// inspected become suspects. So does a queue for which the server does not answer a subscription within 10 s; that
// consumer ends. Each suspect is tried alone, on a separate connection, before it is used again. A queue that the
// server cannot use is deleted and declared anew if its declaration says that it is expendable. Otherwise the error is
// broker.ErrBroken, and the queue is tried again later.
//
// # Consuming
//
// A consumer is a channel, owned by one goroutine. Ack and Nack put their verdict into a queue that can hold the whole
// prefetch, so they never wait and may be called inside an actor. Several acks become one ack for many if no older
// delivery is unsettled. AMQP confirms no settlement: nil means that it is on its way, and after a lost connection the
// message is delivered again. Deliveries that a cancelled consumer did not read are nacked one by one, which counts
// toward a quorum queue's delivery limit.
//
// AMQP's prefetch counts messages, and a server bounds a message's bytes only by its max_message_size. So a consumer
// begins with a small prefetch. It uses the full prefetch once the messages are known to be small, and a smaller one
// after a large message: see window. A new prefetch needs a new subscription. It uses the same channel, so unsettled
// deliveries stay unsettled. A delivery that arrives while too many bytes are unsettled is given back.
//
// A quorum queue's channel delays settlements while more than 32 of its commands are under way
// (quorum_commands_soft_limit), and loses them if it is closed then (rabbitmq-server's issue 10327). So Close cancels
// the consumers first: settlements before the server's answer are kept. A consumer that was cancelled earlier cannot be
// cancelled again, so its settlements shortly before the end may be lost and their messages delivered again.
//
// Its tests take long: they start, kill, freeze and fill private servers, and such a server takes some seconds to start.
package rabbitmq
