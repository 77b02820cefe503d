//go:build mutant

package node

import (
	"os"
	"strings"
)

// sweeps has the planted faults no_claims and no_orphans, each of which takes a safety net away. The chaos suite must find
// them.
func sweeps(name string) bool { return !strings.Contains(os.Getenv("TROUPE_MUTANT"), "no_"+name) }
