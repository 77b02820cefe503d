package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The headers of a call, as the specification Standard Webhooks has them.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

// keyPrefix stands before a secret, as Standard Webhooks writes it; keyMin and keyMax bound its bytes.
const (
	keyPrefix = "whsec_"
	keyMin    = 24
	keyMax    = 64
)

// Key reads a secret: whsec_ and 24 to 64 random bytes in base64. An error does not show it.
func Key(secret string) ([]byte, error) {
	text, ok := strings.CutPrefix(strings.TrimSpace(secret), keyPrefix)
	if !ok {
		return nil, fmt.Errorf("a secret of webhooks begins with %s; `echo %s$(openssl rand -base64 32)` makes one", keyPrefix, keyPrefix)
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("a secret of webhooks is %s and base64, and this one is not base64; `echo %s$(openssl rand -base64 32)` makes one", keyPrefix, keyPrefix)
	}
	if len(key) < keyMin || len(key) > keyMax {
		return nil, fmt.Errorf("a secret of webhooks has %d to %d bytes behind its base64, and this one has %d", keyMin, keyMax, len(key))
	}
	return key, nil
}

// Sign is the value of HeaderSignature for a call. The id holds no full stop.
func Sign(key []byte, id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + Timestamp(at) + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// Timestamp is the value of HeaderTimestamp.
func Timestamp(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
