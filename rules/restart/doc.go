// Package restart decides when the failed workers of a pool are started again: at once while the pool's restart intensity allows it, then
// with a back-off for each slot that grows exponentially. It also decides whether the pool as a whole is broken.
//
// It is pure: times and random numbers are arguments. The pool's supervisor reports every failure and every successful start to the
// Tracker, and waits as long as the verdict says.
package restart
