package store

import (
	"bytes"
	"context"
	"fmt"
	"time"
)

// SecretSize is the length of a cluster's secret, in bytes.
const SecretSize = 32

// SecretKey is the secret itself. No way of printing or encoding shows it, within other values either: those look into whatever
// is not a function.
type SecretKey struct{ reveal func() []byte }

// NewSecretKey makes a key of SecretSize bytes.
func NewSecretKey(b []byte) (SecretKey, error) {
	if len(b) != SecretSize {
		return SecretKey{}, fmt.Errorf("%w: a cluster's secret of %d bytes, want %d", ErrInvalid, len(b), SecretSize)
	}
	own := bytes.Clone(b)
	return SecretKey{func() []byte { return own }}, nil
}

// Reveal returns the secret, for nothing but to compute with it; nil where there is none.
func (k SecretKey) Reveal() []byte {
	if k.reveal == nil {
		return nil
	}
	return k.reveal()
}

// Format implements fmt.Formatter.
func (SecretKey) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("xxxxx")) }

// ClusterSecret is what all nodes of a cluster know and nobody else does.
type ClusterSecret struct {
	ID  int64 // grows with each rotation
	Key SecretKey
	// Current says that nodes prove with it. There is one such.
	Current bool
	// Left is for how long after the question it is accepted yet, where it is not current.
	Left time.Duration
	By   string // the role that made it; empty: not known
}

// ClusterSecrets is what a store can do beside that nodes share: it keeps the secret by which they know each other.
type ClusterSecrets interface {
	// ClusterSecrets returns those that are accepted, the current one first. Where there is none yet it makes it.
	ClusterSecrets(ctx context.Context) ([]ClusterSecret, error)
	// RotateClusterSecret makes another secret the current one, and returns its number. The one before is accepted for the
	// overlap, and so are none for longer that were rotated out earlier.
	RotateClusterSecret(ctx context.Context, overlap time.Duration) (id int64, err error)
}
