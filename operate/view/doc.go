// Package view is what questions about nodes, pools, workers, sessions and executions are answered with. operate makes these
// answers, nodes send them to each other as JSON, and the HTTP API serves them. So the JSON names of the fields are part of two
// contracts. The names of the types are part of none: api says what the schemas of its document are called.
//
// It decides nothing and asks nobody. It links the standard library, the vocabulary and the rows of the store, so that a program
// that submits can read an answer.
package view
