package proof

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Version is the newest version of the proof that this program knows. First is the oldest that it accepts.
const (
	Version = 1
	First   = 1
)

// Size is the length of a nonce and of a proof, in bytes.
const Size = sha256.Size

// AddressMax bounds a party's address, in bytes.
const AddressMax = 300

// Errors of a proof. After any of them, the proof has failed.
var (
	ErrWrong   = errors.New("the proof is wrong: it was made with another secret, for another connection, or changed on the way")
	ErrGarbage = errors.New("the words of the proof do not parse")
	ErrVersion = errors.New("the version of the proof is not known")
)

// Party is one of the two sides.
type Party struct {
	Incarnation messages.Incarnation
	Address     string // its address for peers
}

// terms are the values that a proof covers. Both sides must have the same ones.
type terms struct {
	offered, chosen              uint32
	secret                       int64
	clientNonce, serverNonce     [Size]byte
	client, server               messages.Incarnation
	clientAddress, serverAddress string
}

// encode encodes the terms. Different terms have different encodings.
func (t *terms) encode() []byte {
	b := append([]byte{}, "troupe peers\x00"...)
	b = binary.BigEndian.AppendUint32(b, t.offered)
	b = binary.BigEndian.AppendUint32(b, t.chosen)
	b = binary.BigEndian.AppendUint64(b, uint64(t.secret))
	b = append(b, t.clientNonce[:]...)
	b = append(b, t.serverNonce[:]...)
	b = append(b, t.client[:]...)
	b = append(b, t.server[:]...)
	for _, address := range []string{t.clientAddress, t.serverAddress} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(address)))
		b = append(b, address...)
	}
	return b
}

// Labels of the computed values. None is a prefix of another.
const (
	serverLabel = "server proves\x00"
	clientLabel = "client proves\x00"
	writesLabel = "client writes\x00"
)

// prove returns the proof of one side.
func (t *terms) prove(key store.SecretKey, label string) []byte {
	mac := hmac.New(sha256.New, key.Reveal())
	mac.Write([]byte(label))
	mac.Write(t.encode())
	return mac.Sum(nil)
}

// session returns a session with the connection's own key.
func (t *terms) session(key store.SecretKey) (*Session, error) {
	derived, err := hkdf.Key(sha256.New, key.Reveal(), append(t.clientNonce[:], t.serverNonce[:]...), writesLabel+string(t.encode()), Size)
	if err != nil {
		return nil, fmt.Errorf("make the connection's key: %w", err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, fmt.Errorf("make the connection's key: %w", err)
	}
	mac, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("make the connection's key: %w", err)
	}
	return &Session{mac: mac}, nil
}

// Session tags the client's writes after both proofs. Only one goroutine may use it at a time. A tag is that of
// AES-256-GCM without plaintext (GMAC). Each connection has its own key, and the nonce is the number of the write, so
// no pair of key and nonce is used twice.
type Session struct {
	mac   cipher.AEAD
	count uint64 // number of writes so far
	buf   []byte
}

// Seal returns the tag of the next write, whose parts are given in their order.
func (s *Session) Seal(parts ...[]byte) []byte {
	s.buf = s.buf[:0]
	for _, part := range parts {
		s.buf = append(binary.BigEndian.AppendUint32(s.buf, uint32(len(part))), part...)
	}
	var nonce [12]byte
	binary.BigEndian.PutUint64(nonce[4:], s.count)
	s.count++
	tag := s.mac.Seal(nil, nonce[:], nil, s.buf)
	if cap(s.buf) > keptMax {
		s.buf = nil
	}
	return tag
}

// keptMax is the largest buffer that a session keeps, in bytes.
const keptMax = 64 << 10

// Open reports whether a tag belongs to the next write. After a wrong tag the connection must end, because the number
// of the write is then unknown.
func (s *Session) Open(tag []byte, parts ...[]byte) bool { return hmac.Equal(tag, s.Seal(parts...)) }

// nonce makes a fresh nonce. The system's randomness never fails.
func nonce() (n [Size]byte) {
	_, _ = rand.Read(n[:])
	return n
}
