// Package view is what questions about nodes, pools, workers, sessions and executions are answered with. operate makes these
// answers, nodes send them to each other as JSON, and the HTTP API serves them: a change of a field's name is a change of both.
//
// It decides nothing and asks nobody. It links the standard library and the vocabulary only, so that a program that submits can
// read an answer.
package view
