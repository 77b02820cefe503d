package process

import (
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// drip writes one byte after another, each after a pause, until the other end is closed.
func drip(to net.Conn, data []byte, pause time.Duration) {
	for i := range data {
		time.Sleep(pause)
		if _, err := to.Write(data[i : i+1]); err != nil {
			return
		}
	}
}

// A frame has one bound on silence and one on its whole time. Their errors differ.
func TestAFrameThatTakesItsTime(t *testing.T) {
	for name, c := range map[string]struct {
		bytes int // how many of the frame's 12 bytes arrive
		pause time.Duration
		after time.Duration
		says  string
	}{
		"slow but whole":   {bytes: 12, pause: 1200 * time.Millisecond, after: 14400 * time.Millisecond},
		"a drip":           {bytes: 12, pause: 6 * time.Second, after: 6*time.Second + frameTime(4), says: "a frame was not whole after 15s, though bytes kept coming: 3 of 4 came"},
		"silence":          {bytes: 8, pause: time.Millisecond, after: 8*time.Millisecond + silenceTime, says: "half a frame and then silence for 10s: 8 of 12 bytes came"},
		"a drip, silence":  {bytes: 3, pause: 2 * time.Second, after: 6*time.Second + silenceTime, says: "half a frame and then silence for 10s: 3 of 4 bytes came"},
		"almost too quiet": {bytes: 5, pause: silenceTime - time.Millisecond, after: silenceTime - time.Millisecond + frameTime(4), says: "though bytes kept coming: 2 of 4 came"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				var dripping sync.WaitGroup
				dripping.Go(func() { drip(far, frameOf(`"eightB"`)[:c.bytes], c.pause) })
				began := time.Now()
				payload, err := newFrameReader(near, 100).next()
				require.Equal(t, c.after, time.Since(began))
				if c.says == "" {
					require.NoError(t, err)
					require.Equal(t, `"eightB"`, string(payload))
				} else {
					require.ErrorContains(t, err, c.says)
				}
				require.NoError(t, near.Close())
				require.NoError(t, far.Close())
				dripping.Wait()
			})
		})
	}
}

func TestALargeFrameHasMoreTime(t *testing.T) {
	t.Parallel()
	require.Equal(t, frameBase+time.Second, frameTime(frameRate))
	require.Equal(t, frameBase+64*time.Second, frameTime(16<<20))
}
