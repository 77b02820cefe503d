// Package interest decides which nodes tell each other the outcomes that callers wait for. It is pure: package node gives it what happens and
// the time, and carries out what it returns.
//
// A node whose callers wait for an execution that another one may end asks (Ask says whom), and asks again each time that it has looked at
// the store in vain. The node that is asked notes who wants what in a Book, and for how long. Once it has stored an outcome, the book says to
// whom it goes. A Queue gathers what goes to one node while a message to it is on its way.
//
// Whatever is lost, refused or forgotten here costs a read of the store: who waits hears of the outcome by the store's hint, and looks by
// itself now and then. So each bound simply drops what is above it.
package interest
