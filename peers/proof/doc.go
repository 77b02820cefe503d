// Package proof is how two nodes prove to each other that they know the cluster's secret, and how what the one sends the other
// from then on is kept from being changed, repeated or left out. It holds the words and the computation; peers carries them,
// and decides whom a node believes. It knows neither the network nor the store, and its randomness is the system's.
//
// The node that dials is the client. Its Hello says who it is, which secret it means, and a nonce. The server answers with its
// own name and nonce, and the first proof; the client checks it and sends the second. Either proof is HMAC-SHA256, under the
// secret, of a label of the side that proves, both versions, the secret's number, both nonces, both incarnations and both
// addresses. So
//
//   - a proof that was recorded fits no other nonce of the one who checks it (replay);
//   - a server's proof is none of a client's (reflection), and names whom it is from and to, and at which address (relay to
//     another node);
//   - a version that was changed on the way fits no proof (downgrade), and there is none below the first.
//
// Both then have a key of this connection alone, by HKDF from the secret and all of that. Seal gives each write of the client's
// a tag by it that covers its number too, so that none can be changed, repeated or left out.
package proof
