// Package web is the console: the node's page for operators. It holds the files that a browser loads, embedded from dist/,
// and serves them with their headers. The files hold no data of a node: the page asks the HTTP API for that, with the
// rights of its user.
//
// dist/ is built from src/ by `make web`, and committed, so that building Troupe needs no Node.js. Never edit it by hand.
// The package imports the standard library only. node gives its handler to the API.
package web
