// Package runtime says what Troupe knows of each runtime: one file with one Spec for each, and All, which lists them.
//
// A Spec is data. It says how long a worker's program lives, how an action names its code, how many workers a pool has by
// default, whether they share a queue, and how the program is started. Every other package asks the Spec and never the
// runtime's name, so a new runtime is a new file here with its line in All, and its SDK where it has one. The packages ask
// it as follows: pack how code is read and checked, actors and supervisor how a worker lives, node how a program is started,
// cmd which keys there are.
//
// The package starts nothing and reads nothing.
package runtime
