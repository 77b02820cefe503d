// Package e2e drives the built troupe binary from outside, as its users do: by its command line, its HTTP API, its signals and its files. Of
// the inside it knows only the names of the API's fields. Tests that cannot disturb each other share one node. A test that stops,
// kills or starves a node starts its own.
//
// Its tests take long: they start a node for each case that stops, kills or starves it, and build the program once.
package e2e
