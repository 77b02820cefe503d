package store_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/store"
)

func TestCutBody(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, store.DeadLetterBodyMax, store.DeadLetterBodyMax + 1, 3 << 20} {
		body := bytes.Repeat([]byte("x"), size)
		d := store.CutBody(store.DeadLetter{Reason: "malformed", Body: body})
		require.EqualValues(t, size, d.BodySize)
		require.Len(t, d.Body, min(size, store.DeadLetterBodyMax))
		require.Equal(t, size > store.DeadLetterBodyMax, d.BodyCut)
		if d.BodyCut {
			sum := sha256.Sum256(body)
			require.Equal(t, hex.EncodeToString(sum[:]), d.BodySHA256)
			require.LessOrEqual(t, cap(d.Body), 2*store.DeadLetterBodyMax, "the whole body must not be held")
		} else {
			require.Empty(t, d.BodySHA256)
		}
		require.Equal(t, d, store.CutBody(d), "once is enough")
	}
}
