package lifecycle

import "fmt"

// Health is a worker's second axis: what its last probe said.
type Health uint8

// The healths.
const (
	Unknown   Health = iota // not probed yet
	Healthy                 // the last probe succeeded
	Unhealthy               // the last probe failed
)

var healthNames = [...]string{"unknown", "healthy", "unhealthy"}

// Healths lists every health.
func Healths() []Health { return []Health{Unknown, Healthy, Unhealthy} }

func (h Health) String() string {
	if int(h) < len(healthNames) {
		return healthNames[h]
	}
	return fmt.Sprintf("health(%d)", uint8(h))
}

// ParseHealth is the inverse of String.
func ParseHealth(text string) (Health, error) {
	for h, name := range healthNames {
		if name == text {
			return Health(h), nil
		}
	}
	return 0, fmt.Errorf("unknown worker health %q", clip(text))
}

// MarshalText writes the name.
func (h Health) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads a name.
func (h *Health) UnmarshalText(b []byte) error {
	parsed, err := ParseHealth(string(b))
	if err != nil {
		return err
	}
	*h = parsed
	return nil
}
