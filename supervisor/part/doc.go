// Package part holds what the three parts of one pool share: the pool's configuration, what is gathered while its actor handles one
// message, and the words in which a pool describes itself. It decides nothing and knows none of the parts.
package part
