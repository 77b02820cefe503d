// Package mask takes known secrets out of what programs write and say: the values that a pool's workers were given. It knows
// nothing of where values come from, keeps none beyond the Set that it is asked for, and is pure; package process masks
// output and frames with it, and nodes what they show.
package mask
