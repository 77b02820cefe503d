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

// Version is the newest version of the proof that this program knows; First is the oldest that it takes.
const (
	Version = 1
	First   = 1
)

// Size is the length of a nonce and of a proof, in bytes.
const Size = sha256.Size

// AddressMax bounds a party's address, in bytes.
const AddressMax = 300

// Errors of a proof. Whoever gets one has proven nothing.
var (
	ErrWrong   = errors.New("the proof is wrong: it was made with another secret, for another connection, or changed on the way")
	ErrGarbage = errors.New("the words of the proof do not parse")
	ErrVersion = errors.New("the version of the proof is not known")
)

// Party is one of the two.
type Party struct {
	Incarnation messages.Incarnation
	Address     string // where its peers reach it
}

// terms are what both sides must agree about: everything that a proof covers.
type terms struct {
	offered, chosen              uint32
	secret                       int64
	clientNonce, serverNonce     [Size]byte
	client, server               messages.Incarnation
	clientAddress, serverAddress string
}

// encode writes the terms so that no two write the same.
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

// Labels of what is computed: none is another's beginning.
const (
	serverLabel = "server proves\x00"
	clientLabel = "client proves\x00"
	writesLabel = "client writes\x00"
)

// prove is the proof of one side.
func (t *terms) prove(key store.SecretKey, label string) []byte {
	mac := hmac.New(sha256.New, key.Reveal())
	mac.Write([]byte(label))
	mac.Write(t.encode())
	return mac.Sum(nil)
}

// session is the connection's own key in use.
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

// Session tags what the client writes after both have proven themselves. It is for one goroutine at a time. A tag is that of
// AES-256-GCM over nothing but the parts (GMAC): the key is one connection's alone, and the nonce is the number of the write, so
// no two tags have the same.
type Session struct {
	mac   cipher.AEAD
	count uint64 // of the writes so far
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

// keptMax is how large a buffer a session keeps, in bytes.
const keptMax = 64 << 10

// Open reports whether a tag is that of the next write. After one that is not, the connection is over: which write it was of is
// not known.
func (s *Session) Open(tag []byte, parts ...[]byte) bool { return hmac.Equal(tag, s.Seal(parts...)) }

// nonce makes a fresh nonce. The system's randomness never fails.
func nonce() (n [Size]byte) {
	_, _ = rand.Read(n[:])
	return n
}
