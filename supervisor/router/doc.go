// Package router carries out what package roster decides for one pool: it loads what is due, has it placed, publishes it and follows
// it up. It knows the workers by the reports of their nodes alone, this node among them, and reaches them by orders to its Link. It
// knows nothing of slots, processes and deliveries.
//
// The pool's actor (package supervisor) calls it with offers and what membership tells, and package link with reports. It rests
// while another node routes for the pool.
package router
