package proof

import (
	"crypto/hmac"
	"encoding/binary"
	"fmt"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Hello is the client's first message.
type Hello struct {
	Version uint32 // newest version of the client
	Secret  int64  // number of the client's secret
	Nonce   [Size]byte
	From    Party
}

// helloHead is the length of a Hello without the address, in bytes.
const helloHead = 4 + 8 + Size + 16

// Encode encodes the Hello.
func (h Hello) Encode() []byte {
	b := binary.BigEndian.AppendUint32(nil, h.Version)
	b = binary.BigEndian.AppendUint64(b, uint64(h.Secret))
	b = append(b, h.Nonce[:]...)
	b = append(b, h.From.Incarnation[:]...)
	return append(b, h.From.Address...)
}

// DecodeHello decodes the client's first message.
func DecodeHello(b []byte) (h Hello, err error) {
	if len(b) <= helloHead || len(b) > helloHead+AddressMax {
		return Hello{}, ErrGarbage
	}
	h.Version, h.Secret = binary.BigEndian.Uint32(b), int64(binary.BigEndian.Uint64(b[4:]))
	copy(h.Nonce[:], b[12:])
	copy(h.From.Incarnation[:], b[12+Size:])
	h.From.Address = string(b[helloHead:])
	if h.Version < First {
		return Hello{}, fmt.Errorf("%w: %d, want %d or newer", ErrVersion, h.Version, First)
	}
	return h, nil
}

// answerSize is the length of a server's answer: version, secret, nonce, incarnation and proof.
const answerSize = 4 + 8 + Size + 16 + Size

// Client is the side that dials, while it waits for the server's proof.
type Client struct {
	terms terms
	key   store.SecretKey
}

// NewClient begins a proof, and returns the first message for the server at an address.
func NewClient(secret store.ClusterSecret, own Party, to string) (*Client, []byte) {
	t := terms{
		offered: Version, secret: secret.ID, clientNonce: nonce(), client: own.Incarnation, clientAddress: own.Address, serverAddress: to,
	}
	hello := Hello{Version: Version, Secret: secret.ID, Nonce: t.clientNonce, From: own}
	return &Client{t, secret.Key}, hello.Encode()
}

// Check checks the server's answer. It returns the server's incarnation, the client's proof to send, and the session
// that seals later writes.
func (c *Client) Check(answer []byte) (server messages.Incarnation, own []byte, s *Session, err error) {
	if len(answer) != answerSize {
		return server, nil, nil, ErrGarbage
	}
	t := c.terms
	t.chosen = binary.BigEndian.Uint32(answer)
	switch {
	case t.chosen < First || t.chosen > t.offered:
		return server, nil, nil, fmt.Errorf("%w: %d, want %d to %d", ErrVersion, t.chosen, First, t.offered)
	case int64(binary.BigEndian.Uint64(answer[4:])) != t.secret:
		return server, nil, nil, ErrWrong
	}
	copy(t.serverNonce[:], answer[12:])
	copy(t.server[:], answer[12+Size:])
	if !hmac.Equal(answer[answerSize-Size:], t.prove(c.key, serverLabel)) {
		return server, nil, nil, ErrWrong
	}
	s, err = t.session(c.key)
	return t.server, t.prove(c.key, clientLabel), s, err
}

// Server is the side that was dialled, while it waits for the client's proof.
type Server struct {
	terms  terms
	key    store.SecretKey
	client Party
}

// NewServer handles a client's Hello with this secret, and returns the answer to send.
func NewServer(secret store.ClusterSecret, own Party, hello Hello) (*Server, []byte) {
	t := terms{
		offered: hello.Version, chosen: min(hello.Version, Version), secret: secret.ID,
		clientNonce: hello.Nonce, serverNonce: nonce(), client: hello.From.Incarnation, server: own.Incarnation,
		clientAddress: hello.From.Address, serverAddress: own.Address,
	}
	b := binary.BigEndian.AppendUint32(nil, t.chosen)
	b = binary.BigEndian.AppendUint64(b, uint64(t.secret))
	b = append(b, t.serverNonce[:]...)
	b = append(b, t.server[:]...)
	return &Server{t, secret.Key, hello.From}, append(b, t.prove(secret.Key, serverLabel)...)
}

// Client returns the client's claimed identity. It is proven once Check has succeeded.
func (s *Server) Client() Party { return s.client }

// Secret returns the number of the secret in use.
func (s *Server) Secret() int64 { return s.terms.secret }

// Check checks the client's proof, and returns the session that opens its later writes.
func (s *Server) Check(proof []byte) (*Session, error) {
	if !hmac.Equal(proof, s.terms.prove(s.key, clientLabel)) {
		return nil, ErrWrong
	}
	return s.terms.session(s.key)
}
