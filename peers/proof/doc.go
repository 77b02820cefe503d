// Package proof lets two nodes prove to each other that they know the cluster's secret. It also protects later messages
// from being changed, repeated or omitted. It owns the messages of the proof and the computation. Package peers
// transports them, and decides which node is accepted. The package knows neither the network nor the store, and takes
// its randomness from the system.
//
// The node that opens the connection is the client. Its Hello has its identity, the number of the secret, and a nonce. The server answers with
// its own identity and nonce, and with the first proof. The client checks that proof and sends the second. Each proof is an HMAC-SHA256,
// keyed with the secret, of a label of the side that proves, both versions, the secret's number, both nonces, both
// incarnations and both addresses. So
//
//   - a recorded proof does not fit another nonce of the node that checks it (replay);
//   - a server's proof is not valid as a client's (reflection), and it names both nodes and the address (relay to another node);
//   - a version that was changed on the way fits no proof (downgrade), and there is no version below the first.
//
// Both sides then derive a key for this connection from all of that, by HKDF. Seal gives each write of the client a
// tag, which also covers the number of the write. So no write can be changed, repeated or omitted.
package proof
