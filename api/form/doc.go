// Package form has the JSON types of the HTTP API for programs that submit: bodies, executions, sessions and errors.
// api serves them, and the client of the root package uses them. It links only the standard library.
package form
