// Package e2e uses the built troupe binary as its users do: by its command line, its HTTP API, its signals and its
// files. It imports nothing of the binary except the names of the API's fields. Tests that cannot affect each other
// share one node. A test that stops, kills or starves a node starts its own.
//
// TROUPE_E2E_BINARY names another binary to test instead of the one of this checkout: one of an older release, or a
// script that runs one with limits.
//
// Its tests take long: they start a node for each case that stops, kills or starves it, and build the program once.
package e2e
