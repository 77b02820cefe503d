// Package differences decides what is different in a range of time from the range of the same length before it: which errors, actions,
// versions, pools, workers, nodes, servers and commands, by which figure, and which of the differences comes first.
//
// A table says for each figure how much it must change, and how much the change weighs. A figure that is known of one range alone is not
// compared.
//
// It is pure, and keeps a bounded number of things. The answer of GET /api/v1/differences is made by it.
package differences
