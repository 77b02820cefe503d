package store_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
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

func TestWhichDeadLettersAFilterHas(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	d := store.DeadLetter{At: at, Reason: "expired", Resolution: "failed", Worker: "n/p/0", Action: "a.b"}
	for name, c := range map[string]struct {
		f    store.DeadLetterFilter
		want bool
	}{
		"all": {store.DeadLetterFilter{}, true}, "from": {store.DeadLetterFilter{From: at}, true}, "later": {store.DeadLetterFilter{From: at.Add(1)}, false},
		"to": {store.DeadLetterFilter{To: at.Add(1)}, true}, "earlier": {store.DeadLetterFilter{To: at}, false},
		"reason": {store.DeadLetterFilter{LetterValues: store.LetterValues{Reasons: []string{"expired"}}}, true}, "other reason": {store.DeadLetterFilter{LetterValues: store.LetterValues{Reasons: []string{"maxlen"}}}, false},
		"resolution": {store.DeadLetterFilter{LetterValues: store.LetterValues{Resolutions: []string{"failed"}}}, true}, "other resolution": {store.DeadLetterFilter{LetterValues: store.LetterValues{Resolutions: []string{"requeued"}}}, false},
		"worker": {store.DeadLetterFilter{LetterValues: store.LetterValues{Workers: []messages.WorkerID{"n/p/0"}}}, true}, "other worker": {store.DeadLetterFilter{LetterValues: store.LetterValues{Workers: []messages.WorkerID{"n/p/1"}}}, false},
		"action": {store.DeadLetterFilter{LetterValues: store.LetterValues{Actions: []string{"a.b"}}}, true}, "other action": {store.DeadLetterFilter{LetterValues: store.LetterValues{Actions: []string{"a.c"}}}, false},
		"several":                {store.DeadLetterFilter{LetterValues: store.LetterValues{Actions: []string{"a.b"}, Reasons: []string{"maxlen"}}}, false},
		"one of two":             {store.DeadLetterFilter{LetterValues: store.LetterValues{Reasons: []string{"maxlen", "expired"}}}, true},
		"none of two":            {store.DeadLetterFilter{LetterValues: store.LetterValues{Reasons: []string{"maxlen", "malformed"}}}, false},
		"not it":                 {store.DeadLetterFilter{Not: store.LetterValues{Reasons: []string{"maxlen", "expired"}}}, false},
		"not another":            {store.DeadLetterFilter{Not: store.LetterValues{Resolutions: []string{"requeued"}, Workers: []messages.WorkerID{"n/p/1"}, Actions: []string{"a.c"}}}, true},
		"it, but not its action": {store.DeadLetterFilter{LetterValues: store.LetterValues{Reasons: []string{"expired"}}, Not: store.LetterValues{Actions: []string{"a.b"}}}, false},
	} {
		require.Equal(t, c.want, c.f.Match(&d), name)
		require.Equal(t, name == "all", c.f.IsZero(), name)
	}
}
