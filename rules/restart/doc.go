// Package restart decides when a pool's failed workers are started again: at once while the pool's restart intensity
// allows it, then with an exponential back-off per slot, and whether the pool as a whole is broken.
//
// It is pure: times and random numbers are handed in. The pool supervisor tells the Tracker of every failure and every
// successful start, and waits as long as the verdict says.
package restart
