//go:build mutant

package supervisor

import (
	"os"
	"strings"

	"github.com/troupe-run/troupe/broker"
)

// acked is a delivery that is settled already.
type acked struct{}

func (acked) Ack() error      { return nil }
func (acked) Nack(bool) error { return nil }

// received has the planted fault ack_first: a delivery is acked before its claim. The chaos suite must find it.
func received(d broker.Delivery) broker.Delivery {
	if strings.Contains(os.Getenv("TROUPE_MUTANT"), "ack_first") {
		_ = d.Ack()
		d.Settler = acked{}
	}
	return d
}
