package proof_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/peers/proof"
	"github.com/troupe-run/troupe/store"
)

func secret(t testing.TB, id int64, fill byte) store.ClusterSecret {
	t.Helper()
	key, err := store.NewSecretKey(bytes.Repeat([]byte{fill}, store.SecretSize))
	require.NoError(t, err)
	return store.ClusterSecret{ID: id, Key: key, Current: true}
}

func party(address string) proof.Party {
	return proof.Party{Incarnation: messages.NewIncarnation(), Address: address}
}

func hear(t testing.TB, hello []byte) proof.Hello {
	t.Helper()
	h, err := proof.DecodeHello(hello)
	require.NoError(t, err)
	return h
}

// Both prove themselves, and what the one seals the other opens, in its order.
func TestBothProve(t *testing.T) {
	t.Parallel()
	s, a, b := secret(t, 7, 1), party("a:1"), party("b:2")
	client, hello := proof.NewClient(s, a, b.Address)
	server, answer := proof.NewServer(s, b, hear(t, hello))
	require.Equal(t, a, server.Client())
	require.Equal(t, int64(7), server.Secret())
	who, own, seals, err := client.Check(answer)
	require.NoError(t, err)
	require.Equal(t, b.Incarnation, who)
	opens, err := server.Check(own)
	require.NoError(t, err)
	for range 3 {
		tag := seals.Seal([]byte("one"), []byte("two"))
		require.True(t, opens.Open(tag, []byte("one"), []byte("two")))
	}
}

// Whatever differs between the two, nobody is believed.
func TestWhatIsNotBelieved(t *testing.T) {
	t.Parallel()
	s, a, b := secret(t, 7, 1), party("a:1"), party("b:2")
	type talk struct {
		client *proof.Client
		hello  []byte
	}
	begin := func() talk {
		client, hello := proof.NewClient(s, a, b.Address)
		return talk{client, hello}
	}
	_, recorded := proof.NewServer(s, b, hear(t, begin().hello))
	for name, answer := range map[string]func(talk) []byte{
		"another secret under its number": func(k talk) []byte { _, w := proof.NewServer(secret(t, 7, 2), b, hear(t, k.hello)); return w },
		"another number":                  func(k talk) []byte { _, w := proof.NewServer(secret(t, 8, 1), b, hear(t, k.hello)); return w },
		"a recorded answer":               func(talk) []byte { return recorded },
		"another node's answer, relayed":  func(k talk) []byte { _, w := proof.NewServer(s, party("c:3"), hear(t, k.hello)); return w },
		"an older version offered on the way": func(k talk) []byte {
			h := hear(t, k.hello)
			h.Version += 8
			_, w := proof.NewServer(s, b, h)
			return w
		},
		"a version below the first": func(k talk) []byte {
			_, w := proof.NewServer(s, b, hear(t, k.hello))
			return append([]byte{0, 0, 0, 0}, w[4:]...)
		},
		"another client's name": func(k talk) []byte {
			h := hear(t, k.hello)
			h.From.Incarnation = messages.NewIncarnation()
			_, w := proof.NewServer(s, b, h)
			return w
		},
		"nothing":  func(talk) []byte { return nil },
		"too much": func(k talk) []byte { _, w := proof.NewServer(s, b, hear(t, k.hello)); return append(w, 0) },
	} {
		k := begin()
		who, own, session, err := k.client.Check(answer(k))
		require.Error(t, err, name)
		require.Zero(t, who, name)
		require.Nil(t, own, name)
		require.Nil(t, session, name)
	}
}

// A server's proof is no client's: who mirrors what it hears proves nothing. Nor does a client's recorded proof.
func TestMirrorsAndRecordings(t *testing.T) {
	t.Parallel()
	s, a, b := secret(t, 7, 1), party("a:1"), party("b:2")
	client, hello := proof.NewClient(s, a, b.Address)
	server, answer := proof.NewServer(s, b, hear(t, hello))
	_, err := server.Check(answer[len(answer)-proof.Size:])
	require.ErrorIs(t, err, proof.ErrWrong, "its own proof")
	_, err = server.Check(nil)
	require.ErrorIs(t, err, proof.ErrWrong)
	_, own, _, err := client.Check(answer)
	require.NoError(t, err)
	again, _ := proof.NewServer(s, b, hear(t, hello))
	_, err = again.Check(own)
	require.ErrorIs(t, err, proof.ErrWrong, "the same hello and proof once more")

	// The mirror: b dials the attacker, who opens a connection to b and says b's own words to it.
	victim, words := proof.NewClient(s, b, "attacker:9")
	mirror, back := proof.NewServer(s, b, hear(t, words))
	_, _, _, err = victim.Check(back)
	require.ErrorIs(t, err, proof.ErrWrong, "b is not at the attacker's address")
	_, err = mirror.Check(back[len(back)-proof.Size:])
	require.ErrorIs(t, err, proof.ErrWrong)
}

// Changed, repeated, left out, split otherwise: none of it opens.
func TestSealedWrites(t *testing.T) {
	t.Parallel()
	s, a, b := secret(t, 7, 1), party("a:1"), party("b:2")
	sessions := func() (*proof.Session, *proof.Session) {
		client, hello := proof.NewClient(s, a, b.Address)
		server, answer := proof.NewServer(s, b, hear(t, hello))
		_, own, seals, err := client.Check(answer)
		require.NoError(t, err)
		opens, err := server.Check(own)
		require.NoError(t, err)
		return seals, opens
	}
	seals, opens := sessions()
	tag := slices.Clone(seals.Seal([]byte("ab"), []byte("c")))
	require.False(t, opens.Open(tag, []byte("a"), []byte("bc")), "split otherwise")
	seals, opens = sessions()
	require.True(t, opens.Open(seals.Seal([]byte("x")), []byte("x")))
	_, other := sessions()
	first := seals.Seal([]byte("y"))
	require.False(t, other.Open(first, []byte("y")), "of another connection")
	require.True(t, opens.Open(first, []byte("y")))
	require.False(t, opens.Open(first, []byte("y")), "repeated")
	seals, opens = sessions()
	seals.Seal([]byte("lost"))
	require.False(t, opens.Open(seals.Seal([]byte("z")), []byte("z")), "one was left out")
}

func FuzzWords(f *testing.F) {
	s, a, b := secret(f, 7, 1), party("a:1"), party("b:2")
	_, hello := proof.NewClient(s, a, b.Address)
	_, answer := proof.NewServer(s, b, hear(f, hello))
	f.Add(hello)
	f.Add(answer)
	f.Fuzz(func(t *testing.T, raw []byte) {
		client, _ := proof.NewClient(s, a, b.Address)
		_, own, _, err := client.Check(raw)
		require.Error(t, err, "no words that were not made for it")
		require.Nil(t, own)
		if h, err := proof.DecodeHello(raw); err == nil {
			require.Equal(t, raw, h.Encode())
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	s, x, y := secret(b, 7, 1), party("a:1"), party("b:2")
	client, hello := proof.NewClient(s, x, y.Address)
	_, answer := proof.NewServer(s, y, hear(b, hello))
	_, _, seals, err := client.Check(answer)
	require.NoError(b, err)
	part := make([]byte, 512)
	parts := slices.Repeat([][]byte{part}, 16)
	for b.Loop() {
		seals.Seal(parts...)
	}
}
