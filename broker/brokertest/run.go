// Package brokertest is the suite that every adapter of package broker passes. It asserts only what RabbitMQ does, as
// measured on classic and quorum queues: there is no order after a redelivery, counts may lag, expiry may be late but
// never early, and a connection may be lost when a queue expires under a publisher. It waits for conditions with
// generous bounds and never sleeps.
//
// Every name begins with "troupe.test." and contains a new UUID, so runs may share a server. The suite does not remove
// exchanges.
package brokertest

import (
	"testing"
	"testing/synctest"

	"github.com/troupe-run/troupe/broker"
)

// Open opens a connection. Connections opened with the same t reach the same broker; the suite closes them.
type Open func(t *testing.T) broker.Broker

// Run runs the suite with classic queues, and cases for which the kind of queue matters also with quorum queues.
func Run(t *testing.T, open Open) {
	t.Helper()
	each(t, func(t *testing.T, c testCase, quorum bool) { c.run(newBench(t, open, quorum)) })
}

// RunInBubbles runs each case in a bubble of testing/synctest, where no case waits for real time. open must make the
// broker inside the bubble.
func RunInBubbles(t *testing.T, open Open) {
	t.Helper()
	each(t, func(t *testing.T, c testCase, quorum bool) {
		synctest.Test(t, func(t *testing.T) { c.run(newBench(t, open, quorum)) })
	})
}

func each(t *testing.T, do func(*testing.T, testCase, bool)) {
	t.Helper()
	for _, kind := range []struct {
		name   string
		quorum bool
	}{{"classic", false}, {"quorum", true}} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range cases() {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					do(t, c, kind.quorum)
				})
			}
		})
	}
}

type testCase struct {
	name string
	run  func(*bench)
}

func cases() []testCase {
	return []testCase{
		{"declare_again_changes_nothing", declareAgain},
		{"declare_with_other_arguments_is_refused", declareOther},
		{"message_arrives_whole", messageWhole},
		{"confirms_follow_the_messages", confirmsFollow},
		{"missing_exchange_is_never_confirmed", missingExchange},
		{"inspect_tells_of_a_missing_exchange", inspectExchange},
		{"full_queue_nacks", fullQueue},
		{"cancelled_context_publishes_nothing", cancelledContext},
		{"fanout_reaches_every_queue", fanout},
		{"topic_patterns", topicPatterns},
		{"direct_matches_the_whole_key", direct},
		{"prefetch_bounds_the_unsettled", prefetch},
		{"consumers_take_turns", takeTurns},
		{"nack_with_requeue_redelivers", nackRequeue},
		{"closed_connection_redelivers", closeRedelivers},
		{"settling_twice_is_refused", settleTwice},
		{"settling_after_close_is_refused", settleAfterClose},
		{"cancel_keeps_what_was_read", cancelKeeps},
		{"consume_missing_queue", consumeMissing},
		{"close_ends_everything", closeEnds},
		{"nothing_is_lost_under_load", underLoad},
		{"queue_ttl_dead_letters", queueTTL},
		{"lower_of_expiration_and_ttl_holds", lowerHolds},
		{"expiry_takes_effect_at_the_head", headOfQueue},
		{"unsettled_messages_do_not_expire", unsettledStay},
		{"expired_messages_die_when_given_back", expiredGivenBack},
		{"reject_dead_letters", reject},
		{"without_exchange_dead_letters_are_dropped", rejectDrops},
		{"deaths_are_newest_first", deathsNewestFirst},
		{"delivery_limit_dead_letters", deliveryLimit},
		{"without_limit_redelivery_has_no_end", noDeliveryLimit},
		{"delete_drops_and_ends_consumers", deleteDrops},
		{"unused_queue_expires", queueExpires},
	}
}
