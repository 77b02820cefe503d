package node

import (
	"os"
	"runtime/debug"
)

// collectAt is the garbage collector's target in percent. A busy node lives on few megabytes and makes garbage of every
// execution; at 100 % the collector takes a tenth of its time.
const collectAt = 300

// Tune sets this process's garbage collector for a node, unless the environment's GOGC says otherwise. The binary calls
// it; a program that has a node inside decides for itself.
func Tune() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
}

// Trim gives back to the system what a start has left over: thousands of workers come up at once and then wait.
func Trim() { debug.FreeOSMemory() }
