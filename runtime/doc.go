// Package runtime describes the runtimes: one file with one Spec for each, and All, which lists them.
//
// A Spec is data. It says how long a worker's program lives, how an action names its code, how many workers a pool has
// by default, whether they share a queue, and how the program is started. Every other package asks the Spec and never
// the runtime's name, so a new runtime is a new file here with its line in All, and its SDK where it has one. pack uses
// it to read and check code, actors and supervisor for the lifetime of a worker, node to start a program, and cmd for
// the keys of the configuration.
//
// The package starts nothing and reads nothing.
package runtime
