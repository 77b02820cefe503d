//go:build mutant

package main

import (
	"os"
	"strings"

	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/store/storetest/faulty"
)

// init plants the faults that TROUPE_MUTANT names around the node's adapters.
func init() {
	planted = func(c *node.Config) {
		if strings.Contains(os.Getenv("TROUPE_MUTANT"), "no_attempt") {
			c.WrapStore = faulty.Attemptless
		}
	}
}
