// Package e2e drives the built troupe binary from outside, as the people who use it do: through its command line, its
// HTTP API, its signals and its files. It knows nothing of the inside but the names of the API's fields. Its tests
// share one node where they cannot disturb each other, and start their own where they stop, kill or starve it.
//
// Its tests take long: they start a node for each case that stops, kills or starves it, and build the program once.
package e2e
