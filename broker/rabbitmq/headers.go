package rabbitmq

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/troupe-run/troupe/broker"
)

func toTable(headers map[string]string) amqp.Table {
	if len(headers) == 0 {
		return nil
	}
	table := make(amqp.Table, len(headers))
	for name, value := range headers {
		table[name] = value
	}
	return table
}

// fromTable converts the headers of any publisher to text. It omits the server's own headers.
func fromTable(table amqp.Table) map[string]string {
	var headers map[string]string
	for name, value := range table {
		if serverOwn(name) {
			continue
		}
		if headers == nil {
			headers = make(map[string]string, len(table))
		}
		headers[name] = toText(value)
	}
	return headers
}

func serverOwn(name string) bool {
	switch name {
	case "x-death", "x-delivery-count", "x-acquired-count", "CC", "BCC":
		return true
	}
	return strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
}

func toText(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case nil:
		return ""
	}
	return fmt.Sprint(value)
}

// milliseconds returns d in whole milliseconds, at least 1 where d is positive: 0 would expire at once.
func milliseconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return max(d.Milliseconds(), 1)
}

func toExpiration(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return strconv.FormatInt(milliseconds(d), 10)
}

// fromExpiration parses whole milliseconds. Any other text means no expiration.
func fromExpiration(text string) time.Duration {
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 0 || ms > int64(1<<63-1)/int64(time.Millisecond) {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// deaths reads the x-death header, newest first as the server keeps it. It omits entries of another form.
func deaths(table amqp.Table) []broker.Death {
	entries, _ := table["x-death"].([]any)
	var found []broker.Death
	for _, e := range entries {
		entry, ok := e.(amqp.Table)
		if !ok {
			continue
		}
		found = append(found, death(entry))
	}
	return found
}

func death(entry amqp.Table) broker.Death {
	d := broker.Death{
		Reason: broker.DeathReason(toText(entry["reason"])), Queue: toText(entry["queue"]),
		Exchange: toText(entry["exchange"]), Count: toInt(entry["count"]),
		Expiration: fromExpiration(toText(entry["original-expiration"])),
	}
	if keys, ok := entry["routing-keys"].([]any); ok && len(keys) > 0 {
		d.RoutingKey = toText(keys[0])
	}
	d.At, _ = entry["time"].(time.Time)
	return d
}

func toInt(value any) int {
	n, err := strconv.Atoi(toText(value))
	if err != nil {
		return 0
	}
	return n
}
