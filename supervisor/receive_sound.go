//go:build !mutant

package supervisor

import "github.com/troupe-run/troupe/broker"

// received is a delivery as it comes: unsettled until each of its placements has been claimed or found stale.
func received(d broker.Delivery) broker.Delivery { return d }
