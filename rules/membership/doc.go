// Package membership decides what one incarnation may believe of its own life and of the others': when to renew its lease,
// what to do while the store does not answer, when to give itself up, whom to declare dead, and what to tell the tree. It
// is pure: Step takes an event and the time and returns effects; the member actor of package supervisor carries them out.
//
// The rules, with lease the length of the lease and age the time since the last renewal was asked for, by this process's
// own monotonic clock:
//
//	age < 60 % of lease   claims are sent, claimed runs start
//	60 % … 80 %           nothing more is claimed; the renewal is asked for again and again
//	from 80 %             the peers are asked. One that renews: this node is alone with its trouble, and fences itself. All
//	                      that answer have lost the store too, or there were none: the store is away for everyone, and
//	                      running work goes on, up to the grace. Peers exist and none answers: it fences itself.
//	in such an outage     the peers are asked with every beat. Once one renews, and has for half a lease, or none could be
//	                      reached for so long, it fences itself.
//	declared dead, or     it fences itself: all work is stopped, and the node comes back as a new incarnation
//	past the grace
//
// On a store that evaluates no leases, because one node alone can use it, the node beats for people to see, tells how the
// store stands, and is never fenced.
package membership
