// Package bulk decides about operations on many executions or dead letters: which of them an operation acts on and why it leaves the
// others, what a preview says of them, whether a preview still holds when it is confirmed, and how many may be changed now. It never
// reads or changes one. The node calls it.
package bulk
