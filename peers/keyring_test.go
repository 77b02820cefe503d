package peers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/store"
)

// vault is a source of secrets that answers once it is let.
type vault struct {
	Source
	asked chan context.Context
	let   chan error
}

func (v *vault) ClusterSecrets(ctx context.Context) ([]store.ClusterSecret, error) {
	v.asked <- ctx
	return nil, <-v.let
}

// A stranger that goes away does not end the question to the store that its words gave rise to: others wait for the answer, and
// learn of it where it failed. After a failure the next look asks again soon.
func TestAStrangersEndEndsNoQuestion(t *testing.T) {
	t.Parallel()
	v := &vault{asked: make(chan context.Context, 1), let: make(chan error)}
	k := &keyring{source: v}
	stranger, leave := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- k.reread(stranger) }()
	ctx := <-v.asked
	go func() { second <- k.reread(t.Context()) }()
	leave()
	require.NoError(t, ctx.Err(), "the question goes on")
	away := errors.New("the store is away")
	v.let <- away
	require.ErrorIs(t, <-first, away)
	select {
	case err := <-second: // it came before the question, and shares its answer
		require.ErrorIs(t, err, away)
	case <-v.asked: // it came after it, and asks anew
		v.let <- away
		require.ErrorIs(t, <-second, away)
	}
	require.Eventually(t, func() bool { return k.due(rereadEvery) }, 2*readTime, 10*time.Millisecond)
}
