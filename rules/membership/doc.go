// Package membership decides what one incarnation believes of its own life and of the others': when it renews its lease, what it does while
// the store does not answer, when it stops itself, which nodes it declares dead, and what it tells the rest of the node. It is pure: Step
// takes an event and the time, and returns effects. The member actor of package supervisor carries them out.
//
// The rules follow. The lease is the length of the lease. The age is the time since the last renewal was asked for, by the monotonic clock
// of this process. To fence itself means: the node stops all work and starts again as a new incarnation.
//
//	age < 60 % of lease   Claims are sent, and claimed runs start.
//	60 % … 80 %           Nothing more is claimed. The renewal is asked for again and again.
//	from 80 %             The peers are asked. Where one of them renews, only this node has lost the store, and it fences itself.
//	                      Where all that answer have lost it too, or there are no peers, the store is away for every node: what
//	                      runs goes on, up to the grace. Where there are peers and none answers, the node fences itself.
//	in such an outage     The peers are asked with every beat. The node fences itself once one of them has renewed for half a
//	                      lease, or none could be reached for so long.
//	declared dead, or     The node fences itself.
//	past the grace
//
// Who has ended is no peer, although nobody has declared it dead yet (Weight): the incarnation of this very node before its restart,
// those of a cluster that was restarted as a whole, one whose lease has run out. An outage seconds after such a restart would fence a
// node that is alone.
//
// Another incarnation is declared dead when its lease has run out. It is declared dead earlier where its process has ended for sure
// (Trace.Gone): the store has ended its connection, and its address for peers refuses others.
//
// A store that only one node can use has no leases. There the node beats so that people see it, says whether the store answers, and
// is never fenced.
//
// Its tests take long: models draw thousands of histories of whole fleets.
package membership
