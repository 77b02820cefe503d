// Package arch checks Troupe's own architecture: the import order, the fences around dependencies and the purity of the
// decisions, as listed in order.txt; package docs; and text that must never be in a tracked file. It reads the module's
// source and imports none of it. `make test` and `make verify` run its tests.
package arch
