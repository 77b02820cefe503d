package storetest

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// keyedBy returns a submission by creator under a key.
func keyedBy(creator, key, hash string) messages.Execution {
	e := keyed(key, hash)
	e.CreatedBy = creator
	return e
}

// testKeyOwners checks that a key belongs to its creator. Two owners may use the same key: alone, in one batch, and at
// the same time.
func testKeyOwners(t *testing.T, k *kit) {
	submit := func(executions ...messages.Execution) []store.Submitted {
		out, err := k.Submit(t.Context(), executions)
		require.NoError(t, err)
		return out
	}
	first := map[string]messages.ExecutionID{}
	for _, creator := range []string{"ci", "ops", "local", "amqp", "sql:shop", ""} {
		s := submit(keyedBy(creator, "order-7", creator))[0]
		require.False(t, s.Existing, "%q meets nobody else's key", creator)
		first[creator] = s.Execution.ID
	}
	for creator, id := range first {
		s := submit(keyedBy(creator, "order-7", creator))[0]
		require.True(t, s.Existing, creator)
		require.Equal(t, id, s.Execution.ID)
		_, err := k.Submit(t.Context(), []messages.Execution{keyedBy(creator, "order-7", "another request")})
		var conflict *store.ConflictError
		require.ErrorAs(t, err, &conflict)
		require.Equal(t, id, conflict.Holder, "the conflict is with its own")
	}
	s := submit(keyedBy("sql:another name", "order-7", "sql:shop"))[0]
	require.True(t, s.Existing, "the inbox is one owner, whatever names its rows give")
	require.Equal(t, first["sql:shop"], s.Execution.ID)

	out := submit(keyedBy("ci", "batch", "h"), keyedBy("ops", "batch", "h"), keyedBy("ci", "batch", "h"), keyedBy("ci", "order-7", "ci"), keyedBy("new", "order-7", "x"))
	require.Equal(t, []bool{false, false, true, true, false}, []bool{out[0].Existing, out[1].Existing, out[2].Existing, out[3].Existing, out[4].Existing})
	require.Equal(t, out[0].Execution.ID, out[2].Execution.ID)
	require.NotEqual(t, out[0].Execution.ID, out[1].Execution.ID)
	require.Equal(t, first["ci"], out[3].Execution.ID)

	ids, made := sync.Map{}, sync.Map{}
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			creator := []string{"ci", "ops", "local"}[i%3]
			got, err := k.Submit(t.Context(), []messages.Execution{keyedBy(creator, "race", "h")})
			if err != nil {
				t.Error(err)
				return
			}
			ids.Store(i, got[0].Execution.ID)
			if !got[0].Existing {
				made.Store(got[0].Execution.ID, creator)
			}
		})
	}
	all.Wait()
	owners := map[any]bool{}
	made.Range(func(_, creator any) bool { owners[creator] = true; return true })
	require.Len(t, owners, 3, "one execution an owner")
	for i := range 12 {
		id, _ := ids.Load(i)
		same, _ := ids.Load(i % 3)
		require.Equal(t, same, id)
	}
}

// testRetryKeyOwners checks that the key of a requested retry belongs to who asked for it, not to the creator of the
// execution.
func testRetryKeyOwners(t *testing.T, k *kit) {
	retryBy := func(e messages.Execution, by, key string, hash byte) (store.Submitted, error) {
		return k.Retry(t.Context(), e.ID, retryOf(e, func(n *messages.Execution) {
			n.CreatedBy, n.IdempotencyKey, n.RequestHash, n.KeyOwner = e.CreatedBy, key, []byte{hash}, by
		}), by)
	}
	held, err := k.Submit(t.Context(), []messages.Execution{keyedBy("ci", "again", "h")})
	require.NoError(t, err)
	e := k.bring(t, messages.Failed, func(e *messages.Execution) { e.CreatedBy = "ci" })
	made, err := retryBy(e, "ops", "again", 1)
	require.NoError(t, err, "the key of who submitted it is another one")
	require.False(t, made.Existing)
	require.Equal(t, "ops", made.Execution.KeyOwner)
	require.Equal(t, "ci", made.Execution.CreatedBy)
	again, err := retryBy(e, "ops", "again", 1)
	require.NoError(t, err)
	require.True(t, again.Existing)
	require.Equal(t, "ops", again.Execution.KeyOwner, "it says whose the key is")

	old, err := k.Submit(t.Context(), []messages.Execution{keyedBy("ci", "again", "h")})
	require.NoError(t, err)
	require.True(t, old[0].Existing)
	require.Equal(t, held[0].Execution.ID, old[0].Execution.ID)
	var conflict *store.ConflictError
	_, err = k.Submit(t.Context(), []messages.Execution{keyedBy("ops", "again", "h")})
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, made.Execution.ID, conflict.Holder)

	other := k.bring(t, messages.Failed, func(e *messages.Execution) { e.CreatedBy = "ci" })
	_, err = retryBy(other, "ops", "again", 2)
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, made.Execution.ID, conflict.Holder)
	_, err = retryBy(other, "ci", "again", 2)
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, held[0].Execution.ID, conflict.Holder)
	require.Zero(t, k.get(t, other.ID).RetriedAs)
}
