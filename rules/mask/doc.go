// Package mask removes known secrets from what programs write and say: the values that the workers of a pool were given. It does
// not know where the values come from, and keeps none outside of the Set that it is given. It is pure. Package process masks output and frames
// with it, and a node masks what it shows.
package mask
