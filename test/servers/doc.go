// Package servers gives tests real servers: a Postgres, a RabbitMQ, and a Prometheus.
//
// Postgres and RabbitMQ give a test its own database or prefix on a running server: the one in TROUPE_TEST_POSTGRES or
// TROUPE_TEST_RABBITMQ, else the one on the default port, else one that this process starts from installed programs and
// that ends with the process. Such a server is never killed, frozen or configured.
//
// PrivatePostgres and PrivateRabbitMQ start servers for one test, in a temporary folder on their own ports. The test
// may kill, freeze, thaw, stop and start them. PrivatePrometheus starts one that scrapes what the test runs. Their processes are found by ancestry, never by name. If the test binary
// dies, a keeper process ends them.
//
// MakeRoom gives nodes outside tests a database and a prefix, as settings of a node; see test/servers/room.
//
// Its tests take long: they start and kill each kind of server, and a RabbitMQ takes some seconds to start.
package servers
