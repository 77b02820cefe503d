package rollup_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/rollup"
)

// BenchmarkEnded counts ends of 20 actions.
func BenchmarkEnded(b *testing.B) {
	var m rollup.Minutes
	var ends []rollup.End
	for i := range 20 {
		ends = append(ends, rollup.End{Key: rollup.Key{Pool: "python", Action: fmt.Sprint("mypack.action", i), Version: "1.4.2", Status: messages.Completed},
			At: start, Wait: 40 * time.Millisecond, Run: 12 * time.Second})
	}
	for i := 0; b.Loop(); i++ {
		m.Ended(&ends[i%len(ends)])
	}
}
