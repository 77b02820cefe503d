// Package servers gives tests real servers: a Postgres and a RabbitMQ.
//
// Postgres and RabbitMQ hand out room of a test's own on a server that is there: the one that TROUPE_TEST_POSTGRES or
// TROUPE_TEST_RABBITMQ names, else the one on the default port, else one that this process starts from installed
// programs and that ends with it. Nothing on such a server is ever killed, frozen or configured.
//
// PrivatePostgres and PrivateRabbitMQ start servers of a test's own, in a temporary folder on ports of their own, which
// the test may kill, freeze, thaw, stop and start as it likes. Their families of processes are known by ancestry, never
// by name, and a keeper process ends them when the test binary goes without a word.
//
// MakeRoom gives nodes that are no test's a database and a prefix, by the settings of a node; see test/servers/room.
//
// Its tests take long: they start and kill each kind of server, and a RabbitMQ takes some seconds to start.
package servers
