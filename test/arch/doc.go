// Package arch holds Troupe to its own architecture: the import order, the fences around dependencies and the purity
// of the decisions, all of which stand in order.txt; package docs; and what must never be in a tracked file. It reads
// the module's source and imports nothing of it. Its tests are run by `make test` and `make verify`.
package arch
