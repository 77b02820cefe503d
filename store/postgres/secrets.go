package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-run/troupe/store"
)

// secretsMax bounds the secrets that are accepted at the same time.
const secretsMax = 16

const secretsSQL = `SELECT id, secret, retired_at IS NULL, retired_at - clock_timestamp(), created_by FROM cluster_secret
 WHERE retired_at IS NULL OR retired_at > clock_timestamp() ORDER BY retired_at IS NULL DESC, id DESC LIMIT $1`

// firstSecretSQL stores the first secret. If several nodes start at the same time, one wins.
const firstSecretSQL = `INSERT INTO cluster_secret (secret) VALUES ($1) ON CONFLICT DO NOTHING`

// rotateSQL are the statements of a rotation. The lock serializes rotations.
const (
	rotateLockSQL   = `SELECT pg_advisory_xact_lock(hashtextextended('troupe cluster secret ' || current_schema(), 0))`
	forgetSecretSQL = `DELETE FROM cluster_secret WHERE retired_at < clock_timestamp() - interval '1 day'`
	retireSecretSQL = `UPDATE cluster_secret SET retired_at = clock_timestamp() + $1::interval
 WHERE retired_at IS NULL OR retired_at > clock_timestamp() + $1::interval`
	nextSecretSQL = `INSERT INTO cluster_secret (secret) VALUES ($1) RETURNING id`
)

// ClusterSecrets returns the accepted secrets, the current one first.
func (s *secretRows) ClusterSecrets(ctx context.Context) ([]store.ClusterSecret, error) {
	for range 2 {
		all, err := s.readSecrets(ctx)
		if err != nil || len(all) > 0 && all[0].Current {
			return all, err
		}
		if _, err := s.exec(ctx, "make the cluster's secret", firstSecretSQL, newSecret()); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("read the cluster's secret: %w: there is none although one was made; does a rule or a trigger keep it out of cluster_secret?",
		store.ErrInvalid)
}

func (s *secretRows) readSecrets(ctx context.Context) ([]store.ClusterSecret, error) {
	var all []store.ClusterSecret
	var bad error
	err := s.query(ctx, "read the cluster's secrets", func(v *scanner) {
		secret := store.ClusterSecret{ID: v.integer()}
		var err error
		secret.Key, err = store.NewSecretKey(v.bytes())
		secret.Current, secret.Left, secret.By = v.boolean(), v.duration(), v.text()
		bad = errors.Join(bad, err)
		all = append(all, secret)
	}, secretsSQL, secretsMax)
	return all, errors.Join(err, bad)
}

// RotateClusterSecret makes a new secret the current one.
func (s *secretRows) RotateClusterSecret(ctx context.Context, overlap time.Duration) (id int64, err error) {
	err = s.inTransaction(ctx, "rotate the cluster's secret", func(b *pgx.Batch) {
		b.Queue(rotateLockSQL)
		b.Queue(forgetSecretSQL)
		b.Queue(retireSecretSQL, intervalOf(overlap))
		b.Queue(nextSecretSQL, newSecret()).Query(func(rows pgx.Rows) error {
			return each(rows, func(v *scanner) { id = v.integer() })
		})
	})
	return id, err
}

// newSecret makes a secret. The system's randomness never fails.
func newSecret() []byte {
	b := make([]byte, store.SecretSize)
	_, _ = rand.Read(b)
	return b
}
