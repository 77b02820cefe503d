//go:build !mutant

package node

// sweeps reports whether the named safety nets are there: "claims" (the sweep over claim_by and the timeout monitor) and
// "orphans" (the work of ended incarnations). They always are.
func sweeps(string) bool { return true }
