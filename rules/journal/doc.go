// Package journal decides what a node records in the journal: of a pool's condition one entry for each look, however often
// it changed in between, and of everything else what a bounded log has room for.
//
// It is pure. A pool's router owns a Condition, and each node has one Log.
package journal
