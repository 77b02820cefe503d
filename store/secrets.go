package store

import (
	"bytes"
	"context"
	"fmt"
	"time"
)

// SecretSize is the length of a cluster's secret, in bytes.
const SecretSize = 32

// SecretKey holds the secret. No way to print or encode it shows the secret, also within other values: printers and
// encoders read all values except functions.
type SecretKey struct{ reveal func() []byte }

// NewSecretKey makes a key of SecretSize bytes.
func NewSecretKey(b []byte) (SecretKey, error) {
	if len(b) != SecretSize {
		return SecretKey{}, fmt.Errorf("%w: a cluster's secret of %d bytes, want %d", ErrInvalid, len(b), SecretSize)
	}
	own := bytes.Clone(b)
	return SecretKey{func() []byte { return own }}, nil
}

// Reveal returns the secret, for computing with it only; nil if there is none.
func (k SecretKey) Reveal() []byte {
	if k.reveal == nil {
		return nil
	}
	return k.reveal()
}

// Format implements fmt.Formatter.
func (SecretKey) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("xxxxx")) }

// ClusterSecret is a secret that all nodes of a cluster share.
type ClusterSecret struct {
	ID  int64 // grows with each rotation
	Key SecretKey
	// Current: nodes prove with this secret. Exactly one is current.
	Current bool
	// Left is how long it is still accepted, if it is not current.
	Left time.Duration
	By   string // the role that made it; empty: not known
}

// ClusterSecrets is a store that nodes share and that keeps the secret by which they recognize each other.
type ClusterSecrets interface {
	// ClusterSecrets returns the accepted secrets, the current one first. If there is none, it makes the first one.
	ClusterSecrets(ctx context.Context) ([]ClusterSecret, error)
	// RotateClusterSecret makes a new secret current and returns its number. The previous one is accepted for overlap
	// more; older ones end no later than that.
	RotateClusterSecret(ctx context.Context, overlap time.Duration) (id int64, err error)
}
